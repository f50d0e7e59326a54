"""`agentv init`, and the texts of the files that it writes."""
