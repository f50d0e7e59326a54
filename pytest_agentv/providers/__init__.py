"""Adapters for the targets under test: one file per kind, and the table of kinds."""
