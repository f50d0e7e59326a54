"""The verdict on the run as a whole."""
