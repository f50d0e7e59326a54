"""Models as judges."""
