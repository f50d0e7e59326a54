"""How alike the answer and a text are."""
