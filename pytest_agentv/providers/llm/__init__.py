"""Models behind APIs: their common keys, requests with retries, replies, and the calls through litellm."""
