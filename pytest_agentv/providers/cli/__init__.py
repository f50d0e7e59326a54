"""Command lines as targets: templates, placeholders, output, health checks."""
