"""The shop's database, built in memory from the two SQL files: no state, no binary file."""

import sqlite3
from pathlib import Path
from typing import Final

DATA: Final = Path(__file__).resolve().parent.parent / "data"


def connect() -> sqlite3.Connection:
    """Build the database and open it for reading only: an agent that writes is stopped by SQLite itself."""
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    for script in ("schema.sql", "seed.sql"):
        connection.executescript((DATA / script).read_text(encoding="utf-8"))
    connection.execute("PRAGMA query_only = ON")
    return connection
