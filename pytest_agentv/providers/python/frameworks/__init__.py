"""Agents and results of other packages, a file for each: told by their shape, and nothing of theirs is imported."""
