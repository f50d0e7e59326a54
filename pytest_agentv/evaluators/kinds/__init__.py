"""The built-in kinds of evaluators, one class in one file each."""
