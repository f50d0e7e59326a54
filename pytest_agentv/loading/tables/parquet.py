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
        from pyarrow import ArrowException, float32, float64, string  # noqa: PLC0415 - optional
        from pyarrow.parquet import read_table  # noqa: PLC0415 - optional
    except ImportError:
        raise SourceError(path, "needs pyarrow: pip install 'pytest-agentv[parquet]'") from None
    try:
        columns = read_table(path)
        for index, column in enumerate(columns.columns):
            if column.type == float32():  # 0.1 would become 0.10000000149011612
                columns = columns.set_column(index, columns.column_names[index], column.cast(string()).cast(float64()))
        read: list[dict[str, Any]] = columns.to_pylist()
    except (OSError, ArrowException, ValueError, OverflowError) as error:
        raise SourceError(path, f"cannot be read as Parquet: {' '.join(str(error).split())}") from None
    table = Table(path, has_lines=False)
    return [Row(table, index + 1, index, _plain(row)) for index, row in enumerate(read)]


def _plain(value: Any) -> Json:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else _number_or_text(value)
    if isinstance(value, float):
        return plain_number(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return value if isinstance(value, str | bool | int | float | None) else str(value)


def _number_or_text(value: decimal.Decimal) -> float | str:
    """Return a decimal as a number; as a text if a number cannot hold its digits."""
    number = float(value)
    return number if decimal.Decimal(repr(number)) == value else str(value)
