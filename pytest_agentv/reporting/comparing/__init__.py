"""Compares results files with each other and with labels, and plans what it takes to see a difference."""
