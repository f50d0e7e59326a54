"""Asks the APIs of models."""
