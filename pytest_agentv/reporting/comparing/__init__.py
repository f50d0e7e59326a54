"""Compares results files."""
