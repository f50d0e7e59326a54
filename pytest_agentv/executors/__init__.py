"""Runs cases in other processes: sends jobs, and receives results. Does not depend on pytest."""
