"""Prepares conversations for a results file: bounds their length, and names images."""
