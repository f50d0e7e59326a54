"""The `agentv` console script."""
