"""Packs jobs for other machines: with paths relative to named folders, and bundles of their files."""
