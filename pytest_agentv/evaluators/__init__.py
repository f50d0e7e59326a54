"""Judges answers: one file per kind of evaluator, and the table of kinds."""
