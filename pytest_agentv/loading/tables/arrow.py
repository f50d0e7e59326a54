"""Makes values of files from the columns of pyarrow.

pyarrow is optional, and starts threads when it is imported. So only the functions import it.
"""

import datetime
import decimal
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from pytest_agentv.loading.tables.rows import plain_number
from pytest_agentv.models.base import Escaped, Json, JsonObject

_Read: TypeAlias = Callable[[Any], Json]

_EXACT: Final = 2**24
"""Whole numbers below it are exact in 32 bits, and those of 16 bits are all below it."""


def plain_rows(columns: Any) -> list[tuple[JsonObject, tuple[str, ...]]]:
    r"""Return the rows of a table of pyarrow. Times lose the digits below a microsecond.

    With each row come the names of its columns with bytes that are no text. These bytes are shown as `\xff`, so that
    whatever reads the columns sees that something is there, and no two values are one.
    Raises `ArrowException`, `ValueError` and `OverflowError` for values that Python cannot hold.
    """
    for index, column in enumerate(columns.columns):
        kind = _in_microseconds(column.type)
        if kind != column.type:
            columns = columns.set_column(index, columns.column_names[index], column.cast(kind, safe=False))
    readers = {field.name: _reader(field.type) for field in columns.schema}
    return [_row(row, readers) for row in columns.to_pylist()]


def _row(row: dict[str, Any], readers: Mapping[str, _Read]) -> tuple[JsonObject, tuple[str, ...]]:
    try:
        return {name: readers[name](value) for name, value in row.items()}, ()
    except UnicodeDecodeError:
        values: dict[str, Json] = {}
    odd = []
    for name, value in row.items():
        try:
            values[name] = readers[name](value)
        except UnicodeDecodeError:
            values[name] = readers[name](_escaped(value))
            odd.append(name)
    return values, tuple(odd)


def _escaped(value: Any) -> Any:
    """Return a value with texts in place of bytes."""
    if isinstance(value, bytes):
        return Escaped(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, dict):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    return type(value)(map(_escaped, value)) if isinstance(value, list | tuple) else value


def _in_microseconds(kind: Any) -> Any:
    """Return a type with microseconds in place of nanoseconds, which Python's own types do not have."""
    import pyarrow  # noqa: PLC0415 - optional
    from pyarrow import types  # noqa: PLC0415 - optional

    if types.is_struct(kind):
        return pyarrow.struct([_field_in_microseconds(field) for field in kind])
    if types.is_map(kind):
        return pyarrow.map_(kind.key_type, _field_in_microseconds(kind.item_field))
    if types.is_fixed_size_list(kind):
        return pyarrow.list_(_field_in_microseconds(kind.value_field), kind.list_size)
    if types.is_large_list(kind):
        return pyarrow.large_list(_field_in_microseconds(kind.value_field))
    if types.is_list(kind):
        return pyarrow.list_(_field_in_microseconds(kind.value_field))
    if types.is_dictionary(kind):
        value = _in_microseconds(kind.value_type)
        return kind if value == kind.value_type else value
    return _unit_in_microseconds(kind) if getattr(kind, "unit", None) == "ns" else kind


def _unit_in_microseconds(kind: Any) -> Any:
    import pyarrow  # noqa: PLC0415 - optional
    from pyarrow import types  # noqa: PLC0415 - optional

    if types.is_timestamp(kind):
        return pyarrow.timestamp("us", kind.tz)
    return pyarrow.time64("us") if types.is_time64(kind) else pyarrow.duration("us")


def _field_in_microseconds(field: Any) -> Any:
    return field.with_type(_in_microseconds(field.type))


def _reader(kind: Any) -> _Read:
    """Return the function that makes a value of files from a value of a type."""
    from pyarrow import types  # noqa: PLC0415 - optional

    if types.is_float32(kind):
        return lambda value: _as_written(value, "f", 6)
    if types.is_float16(kind):
        return lambda value: _as_written(value, "e", 3)
    if types.is_struct(kind):
        fields = {field.name: _reader(field.type) for field in kind}
        return lambda value: None if value is None else {name: fields[name](item) for name, item in value.items()}
    if types.is_map(kind):
        read_key, read_item = _reader(kind.key_type), _reader(kind.item_type)
        return lambda pairs: None if pairs is None else [[read_key(key), read_item(item)] for key, item in pairs]
    if types.is_dictionary(kind):
        return _reader(kind.value_type)
    if hasattr(kind, "value_type"):
        read = _reader(kind.value_type)
        return lambda items: None if items is None else [read(item) for item in items]
    return _plain


def _as_written(value: Any, code: str, digits: int) -> float | None:
    """Return a number of 32 or 16 bits with the digits that people wrote: 0.1, not 0.10000000149011612.

    Args:
        value: The number. Older versions of pyarrow give a number of NumPy for 16 bits.
        code: The format for `struct`.
        digits: The number of digits that the format always keeps. It may need up to three more.
    """
    number = None if value is None else plain_number(float(value))
    if number is None or (number.is_integer() and abs(number) < _EXACT):
        return number
    shorter = (float(f"{number:.{count}g}") for count in range(digits, digits + 4))
    return next((each for each in shorter if struct.unpack(code, struct.pack(code, each))[0] == number), number)


def _plain(value: Any) -> Json:
    """Return a value of files. Raises `UnicodeDecodeError` for bytes that are no text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else _number_or_text(value)
    if isinstance(value, float):
        return plain_number(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return value if isinstance(value, str | bool | int | float | None) else str(value)


def _number_or_text(value: decimal.Decimal) -> float | str:
    """Return a decimal as a number; as a text if a number cannot hold its digits."""
    number = float(value)
    return number if decimal.Decimal(repr(number)) == value else str(value)
