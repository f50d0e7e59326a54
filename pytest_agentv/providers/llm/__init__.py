"""Models: their common keys, requests with retries, replies, and the way through litellm."""
