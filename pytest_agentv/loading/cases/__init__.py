"""Reads cases: messages, attached files, evaluators, guideline patterns."""
