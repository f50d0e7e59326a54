"""Joins the results files of several machines, and tells which results of several attempts count beside each other."""
