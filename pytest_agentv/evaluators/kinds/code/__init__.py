"""User code that judges: scripts, and Python code in this process."""
