"""Coding agents: Claude Code, Codex and pi, and what they have in common."""
