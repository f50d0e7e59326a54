"""Cases that are asked more than once: their answers in flight, and the journal of these."""
