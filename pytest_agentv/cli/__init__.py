"""The console commands: a file for each."""
