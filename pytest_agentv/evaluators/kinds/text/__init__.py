"""Checks of the answer's text that need no model."""
