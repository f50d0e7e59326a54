"""Shows a run in a CI service, beside its log."""
