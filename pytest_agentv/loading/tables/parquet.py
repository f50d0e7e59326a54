"""Reads the rows of a Parquet file, with the optional package of the extra `parquet`."""

from pathlib import Path

from pytest_agentv.errors import SourceError
from pytest_agentv.loading.tables.arrow import plain_rows
from pytest_agentv.loading.tables.rows import Row, Table


def read_parquet_rows(path: Path) -> list[Row]:
    """Return the rows. Dates become texts. Raises `SourceError` without pyarrow, and for a file of another format."""
    try:
        from pyarrow import ArrowException  # noqa: PLC0415 - optional
        from pyarrow.parquet import read_table  # noqa: PLC0415 - optional
    except ImportError:
        raise SourceError(path, "needs pyarrow: pip install 'pytest-agentv[parquet]'") from None
    try:
        read = plain_rows(read_table(path))
    except (OSError, ArrowException, ValueError, OverflowError) as error:
        raise SourceError(path, f"cannot be read as Parquet: {' '.join(str(error).split())}") from None
    table = Table(path, has_lines=False, fills_structs=True)
    return [Row(table, index + 1, index, row, unread=unread) for index, (row, unread) in enumerate(read)]
