"""Shows the progress while cases run."""
