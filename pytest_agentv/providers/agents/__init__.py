"""Coding agents."""
