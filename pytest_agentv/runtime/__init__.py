"""Access to the operating system: processes, the event loop, locked files."""
