"""Checks files without a run, for `agentv validate`."""
