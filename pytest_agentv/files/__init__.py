"""From files to plain values with lines: YAML, JSON, places, faults, keys, kinds, schemas."""
