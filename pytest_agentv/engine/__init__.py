"""Runs a case, and many."""
