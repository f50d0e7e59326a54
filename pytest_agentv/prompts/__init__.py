"""From an eval case to the text that a provider is sent."""
