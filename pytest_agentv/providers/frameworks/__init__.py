"""Results of other packages, told by their shape: a file for each."""
