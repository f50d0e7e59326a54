"""Evals written in Python: the fixtures."""
