"""Explains why a case failed or broke: on one line, and in full."""
