"""Reads files into checked records: eval suites, targets, environment, guideline patterns."""
