"""Recognizes and reads eval files: their YAML and JSON values with lines, and their cases."""
