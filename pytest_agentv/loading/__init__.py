"""Reads files into checked records: eval files, targets, environment, guideline patterns."""
