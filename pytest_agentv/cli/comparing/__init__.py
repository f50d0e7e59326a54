"""Commands that compare results with others, with labels, and with what chance alone would do."""
