"""Chooses which of the collected cases run: samples, shards, and runs that spend money only on request."""
