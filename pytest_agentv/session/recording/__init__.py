"""The results file of a run, and those of earlier runs."""
