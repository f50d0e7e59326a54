"""Reads tables of data, each row of which becomes a case."""
