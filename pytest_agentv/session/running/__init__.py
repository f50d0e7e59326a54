"""From items to results: what is begun, on which thread it runs, and how it ends."""
