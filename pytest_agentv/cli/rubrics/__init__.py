"""Writes rubrics into eval files: asks a model for them, finds their place, edits the file."""
