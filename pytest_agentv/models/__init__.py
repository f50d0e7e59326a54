"""Plain data: frozen, picklable records that do not depend on files or pytest."""
