"""Jobs that can travel: their paths are relative to named folders, and the files that they need go as bundles."""
