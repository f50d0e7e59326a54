"""Reads the rows of a Parquet file, with the optional package of the extra `parquet`."""

import datetime
import decimal
from pathlib import Path
from typing import Any

from pytest_agentv.errors import SourceError
from pytest_agentv.loading.tables.rows import Row, Table, plain_number
from pytest_agentv.models.base import Json


def read_parquet_rows(path: Path) -> list[Row]:
    """Return the rows. Dates become texts. Raises `SourceError` without pyarrow, and for a file of another format."""
    try:
        from pyarrow import ArrowException  # noqa: PLC0415 - optional
        from pyarrow.parquet import read_table  # noqa: PLC0415 - optional
    except ImportError:
        raise SourceError(path, "needs pyarrow: pip install 'pytest-agentv[parquet]'") from None
    try:
        read: list[dict[str, Any]] = read_table(path).to_pylist()
    except (OSError, ArrowException) as error:
        raise SourceError(path, f"cannot be read as Parquet: {' '.join(str(error).split())}") from None
    table = Table(path, has_lines=False)
    return [Row(table, index + 1, index, _plain(row)) for index, row in enumerate(read)]


def _plain(value: Any) -> Json:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else plain_number(float(value))
    if isinstance(value, float):
        return plain_number(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return value if isinstance(value, str | bool | int | float | None) else str(value)
