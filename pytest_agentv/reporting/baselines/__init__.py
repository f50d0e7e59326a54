"""Reads and writes the baseline: a file in git with a header and one line for each case."""
