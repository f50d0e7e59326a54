"""From files to pytest items."""
