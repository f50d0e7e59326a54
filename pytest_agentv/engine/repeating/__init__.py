"""Cases that are asked more than once: how many answers they need, and the result of all answers."""
