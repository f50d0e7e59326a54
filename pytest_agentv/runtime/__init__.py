"""The event loop, processes, locks, files."""
