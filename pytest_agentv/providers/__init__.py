"""The kinds of targets, and what they share."""
