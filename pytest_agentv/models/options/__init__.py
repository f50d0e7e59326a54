"""The options of a run: the table of all options, the parsers of their values, and the record of their values."""
