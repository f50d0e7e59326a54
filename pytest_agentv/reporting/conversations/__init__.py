"""Conversations as a results file holds them: bounded, images named."""
