"""Plain records, what a kind is, the table of options, secrets and their masker."""
