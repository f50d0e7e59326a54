"""Which values are secrets, and how they are masked in everything that is written."""
