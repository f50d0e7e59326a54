"""Limits of what the answer may cost: money, time, tokens."""
