"""A case that is opened: its texts, images and times."""
