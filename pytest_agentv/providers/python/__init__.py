"""Python functions as targets: imports by folder, calls, answers."""
