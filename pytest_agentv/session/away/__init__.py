"""Cases that run in other processes: which ones may, where they go, and what comes back."""
