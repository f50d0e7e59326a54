"""Formats for CI services and pull requests: Markdown, annotations, and reports of other programs."""
