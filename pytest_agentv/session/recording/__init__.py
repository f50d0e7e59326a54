"""The id of the run, its results file, and the results of earlier runs."""
