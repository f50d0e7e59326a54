"""Reads files: which ones are eval files, their YAML and JSON values with lines, their suites."""
