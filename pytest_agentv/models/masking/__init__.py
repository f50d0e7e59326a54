"""Decides which values are secrets, and masks them in everything that is written."""
