"""The run's name, its results file, and what earlier runs left in theirs."""
