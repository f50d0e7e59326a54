"""Python functions and agents as targets: imports them by folder, calls them, and reads their answers."""
