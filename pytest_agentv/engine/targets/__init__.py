"""Gets targets and judges ready: resolves, opens, probes, caches and paces them."""
