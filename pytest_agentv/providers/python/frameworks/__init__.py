"""Agents and results of other packages, one file each. They are recognized by shape, so no package is imported."""
