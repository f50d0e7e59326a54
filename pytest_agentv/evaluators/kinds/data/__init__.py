"""Checks of answers that are data: JSON, XML, YAML."""
