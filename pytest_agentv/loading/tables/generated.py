"""Reads the rows that a function of the project makes."""

from collections.abc import Mapping
from enum import Enum
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from pytest_agentv.loading.tables.names import CallFunction
from pytest_agentv.loading.tables.rows import Row, Table, plain_number
from pytest_agentv.models.base import Json
from pytest_agentv.models.text import require_readable


def generated_rows(name: str, folder: Path, call: CallFunction) -> list[Row]:
    """Return the rows of a function. Raises `AgentvError`."""
    source = name.rpartition(":")[0]
    path = folder / source if source.endswith(".py") else folder
    table = Table(path, function=name, has_lines=False)
    return [_row(table, index, item) for index, item in enumerate(call(name, folder))]


def _row(table: Table, index: int, item: object) -> Row:
    try:
        if isinstance(item, Mapping):
            return Row(table, index + 1, index, _plain(item))
        fault = f"expected a mapping, got a value of type {type(item).__name__}"
    except TypeError as error:
        fault = str(error)
    except ValueError:
        fault = "holds a number with more digits than can be read"
    except RecursionError:
        fault = "holds itself, or values that are nested too deeply"
    return Row(table, index + 1, index, {}, fault)


def _plain(value: Any) -> Json:
    """Return a value in a type of files.

    Raises `TypeError` for other types, `ValueError` for a number that is too long for a text, and `RecursionError`.
    """
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, int):
        require_readable(value)
    if isinstance(value, str | bool | int | float | None):
        return str(value) if isinstance(value, str) else plain_number(value) if isinstance(value, float) else value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, PathLike):
        return fspath(value)
    raise TypeError(f"holds a value of type {type(value).__name__}: expected texts, numbers, lists and mappings")
