"""Which of the collected cases run: samples, shards, and runs that spend nothing unasked."""
