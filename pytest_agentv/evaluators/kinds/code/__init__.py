"""Code of the user's that judges in this process."""
