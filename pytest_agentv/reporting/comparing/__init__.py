"""Compares results files with each other and with labels, and plans how many cases a comparison needs."""
