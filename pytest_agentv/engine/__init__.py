"""Runs a case, and many cases; knows nothing of pytest."""
