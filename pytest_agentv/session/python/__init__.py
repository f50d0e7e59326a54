"""Evals in Python, and the fixtures."""
