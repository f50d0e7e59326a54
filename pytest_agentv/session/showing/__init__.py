"""What users see: reports, logs, the terminal."""
