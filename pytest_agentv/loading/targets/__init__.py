"""Reads targets files and `.env`, fills in variables, and reports missing ones."""
