"""What is shown while cases run."""
