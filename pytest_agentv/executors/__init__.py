"""Runs cases in other processes: a job goes there, and a result comes back. Nothing here knows pytest."""
