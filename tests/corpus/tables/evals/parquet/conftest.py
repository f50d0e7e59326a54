from datetime import date
from pathlib import Path

import pyarrow
import pyarrow.parquet

ROWS = [
    {"id": "one", "day": date(2025, 1, 15), "words": ["tent", "stove"], "note": None, "scan": b"\xff\xd8"},
    {"id": "two", "day": date(2025, 2, 1), "words": ["lamp"], "note": "dear", "scan": b"lamp"},
]


def pytest_configure():
    path = Path(__file__).parent / "rows.parquet"
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
