"""Runs cases in other processes: decides which ones may go, sends them, and takes their results."""
