"""Results files, statistics, and the lines of the summary."""
