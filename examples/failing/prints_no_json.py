"""A judge that exits with 0 but prints no result."""

print("looks good to me")
