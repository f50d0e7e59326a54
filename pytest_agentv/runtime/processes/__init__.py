"""Processes that we start: their output, their time limits, their ends."""
