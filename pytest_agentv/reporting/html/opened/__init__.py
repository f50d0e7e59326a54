"""The details of an opened case: its texts, images and times."""
