"""Judges a run: reads cases from results, compares them with baselines, applies gates, and words the verdict."""
