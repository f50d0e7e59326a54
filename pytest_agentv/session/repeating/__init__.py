"""Cases with several answers: asks for them, and keeps them in a journal."""
