"""The pytest plugin: hooks that forward to `session/`."""
