"""Fresh answers of cases whose items have ended."""
