"""What a CI service shows of a run beside its log."""
