"""Tells why a case failed or broke: on a line, and at length."""
