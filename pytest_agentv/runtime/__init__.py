"""What touches the operating system: processes, the event loop, files under a lock."""
