"""What judges an answer, one file per kind, and the table of kinds."""
