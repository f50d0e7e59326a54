"""Puts the results files of one run together that several machines, or several attempts, have written."""
