"""Runs one case or many. Does not depend on pytest."""
