"""Compares values, dates, limits and tool calls with what was expected."""
