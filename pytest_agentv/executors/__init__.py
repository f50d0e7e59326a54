"""Runs cases in other processes: a job goes there, a result comes back."""
