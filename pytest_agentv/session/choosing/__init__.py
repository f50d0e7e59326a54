"""Which of the collected cases run: samples, and runs that spend nothing unasked."""
