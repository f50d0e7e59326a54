"""Reads tables of data. Each row becomes a case."""
