"""Builds the text that a provider gets from an eval case."""
