"""Adapters to what is under test, one file per kind, and the table of kinds."""
