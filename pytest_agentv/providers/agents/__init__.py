"""Coding agents: Claude Code, Codex and pi, and the code that they share."""
