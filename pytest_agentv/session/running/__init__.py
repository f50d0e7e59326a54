"""From items to results."""
