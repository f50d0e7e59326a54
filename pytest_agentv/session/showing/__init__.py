"""What users see: outcomes, reports, the terminal."""
