"""A row of a table, with its place."""

import math
from dataclasses import field
from pathlib import Path

from pytest_agentv.errors import locate, name_below
from pytest_agentv.loading.files.source import Source
from pytest_agentv.loading.files.yaml_values import KeyPath
from pytest_agentv.loading.problems import Problem, describe_value
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.records import record


@record
class Table:
    """A file or a function that provides rows."""

    path: Path
    """The file. For a function, its own file or the folder of the eval file."""
    function: str | None = None
    """The function's name as written: `cases.py:make`."""
    has_lines: bool = True
    """Whether the number of a row is a line of the file."""
    fills_structs: bool = False
    """Whether a mapping in a row has all fields of the other rows, with null for those that the row lacks."""
    source: Source | None = None
    """The values of a YAML file, for the places of faults in a row."""
    list_keys: KeyPath = ()
    """The path of the list of rows in `source`."""
    problems: list[Problem] = field(default_factory=list)
    """Warnings about the table, for example about cells that are not read."""


@record
class Row:
    """A row: a mapping of its columns, or the fault that prevented reading it."""

    table: Table
    number: int
    """The number of its first line or, without lines, its position; 1-based."""
    index: int
    """Its position among the rows, 0-based."""
    values: JsonObject
    fault: str | None = None
    unread: tuple[str, ...] = ()
    """The columns with bytes that are no text. `values` shows these as escapes."""

    @property
    def case(self) -> JsonObject:
        """The values of a row that is a case. `vars` keep their nulls, because texts may name these variables."""
        if not self.table.fills_structs:
            return self.values
        return {key: value if key == "vars" else _without_nulls(value) for key, value in self.values.items()}

    @property
    def line(self) -> int | None:
        return self.number if self.table.has_lines else None

    @property
    def where(self) -> str:
        """The place to show: `questions.csv:17`, or `cases.py:make, row 17`."""
        name = self.table.function or locate(self.table.path, self.line)
        return name if self.table.has_lines else f"{name}, row {self.number}"

    def shown_from(self, root: Path) -> str:
        """Return the place like `where`, but relative to a parent folder."""
        name = name_below(self.table.path, root)
        if self.table.function is not None:
            return self.where
        return f"{name}:{self.number}" if self.table.has_lines else f"{name}, row {self.number}"

    @property
    def source(self) -> tuple[Source, KeyPath]:
        """The source of the row's values, and their path in it."""
        if self.table.source is not None:
            return self.table.source, (*self.table.list_keys, self.index)
        return _RowSource(self), (self.index,)


class _RowSource(Source):
    """The values of a row, which are all on its line."""

    def __init__(self, row: Row) -> None:
        super().__init__(row.table.path, row.values, "", {})
        self.row = None if row.table.has_lines else row.where
        self._line = row.line or 1

    @property
    def tells_case_by_line(self) -> bool:
        return True

    @property
    def has_lines(self) -> bool:
        return self.row is None

    def line_of(self, key_path: KeyPath = ()) -> int:  # noqa: ARG002 - there is one line
        return self._line


def _without_nulls(value: Json) -> Json:
    """Return a value whose mappings lack the fields that are null."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def plain_number(value: float) -> float | None:
    """Return a number of a table; None for NaN, which pandas and NumPy use for a missing value."""
    return None if math.isnan(value) else value


def row_of(table: Table, number: int, index: int, value: Json) -> Row:
    """Return the row of a value. A value that is not a mapping becomes a row with a fault."""
    if isinstance(value, dict):
        return Row(table, number, index, value)
    return Row(table, number, index, {}, f"expected a row: a mapping of columns to values, got {describe_value(value)}")
