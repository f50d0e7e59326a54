"""The composition root: everything that knows pytest."""
