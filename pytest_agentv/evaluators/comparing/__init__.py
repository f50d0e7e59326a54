"""Compares values, dates, limits and tool calls with expected ones."""
