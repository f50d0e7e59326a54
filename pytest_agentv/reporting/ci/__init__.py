"""What CI services and pull requests show: Markdown, annotations, reports in formats that others read."""
