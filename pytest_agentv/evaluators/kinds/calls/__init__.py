"""Checks of the tool calls that led to the answer."""
