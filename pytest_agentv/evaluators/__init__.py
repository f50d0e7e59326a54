"""The kinds of evaluators, and what they share."""
