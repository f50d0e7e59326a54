"""Starts judge scripts, writes their input, and serves the targets that they may call."""
