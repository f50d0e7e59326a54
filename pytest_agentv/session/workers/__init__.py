"""The processes of an xdist run: their shares, their items, their ends, their crashes."""
