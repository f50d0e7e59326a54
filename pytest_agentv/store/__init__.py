"""What survives a run: results files, fingerprints, merging."""
