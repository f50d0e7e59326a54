"""Statistics of a run: pure functions from scores to intervals, comparisons and plans."""
