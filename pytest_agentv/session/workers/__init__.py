"""The processes of an xdist run: their shares, their ends, their crashes."""
