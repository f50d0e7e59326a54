"""User code that judges in this process."""
