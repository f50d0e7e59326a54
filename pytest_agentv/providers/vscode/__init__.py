"""VS Code as a target, through the file protocol of the npm package `subagent` (agentv-formats 5.7)."""
