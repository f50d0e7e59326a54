"""The targets file, its environment, and the types of its keys."""
