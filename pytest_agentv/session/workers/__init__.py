"""The processes of an xdist run: their numbers, their items, their crashes."""
