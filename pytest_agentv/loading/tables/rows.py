"""A row of a table, and where it is written."""

import math
from dataclasses import field
from pathlib import Path

from pytest_agentv.errors import locate
from pytest_agentv.loading.files.source import Source
from pytest_agentv.loading.files.yaml_values import KeyPath
from pytest_agentv.loading.problems import Problem, describe_value
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.records import record


@record
class Table:
    """A file, or a function, that gives rows."""

    path: Path
    """The file; for a function the file that it is in, or the folder of the eval file."""
    function: str | None = None
    """The function's name as written: `cases.py:make`."""
    has_lines: bool = True
    """Whether the number of a row is a line of the file."""
    source: Source | None = None
    """The values of a YAML file, for the places of faults within a row."""
    list_keys: KeyPath = ()
    """The path of the list of rows in `source`."""
    problems: list[Problem] = field(default_factory=list)
    """What is odd about the table, such as cells that nobody reads."""


@record
class Row:
    """One row: a mapping of its columns, or the fault that kept it from being read."""

    table: Table
    number: int
    """Its first line, or without lines its position; 1-based."""
    index: int
    """Its position among the rows, 0-based."""
    values: JsonObject
    fault: str | None = None

    @property
    def line(self) -> int | None:
        return self.number if self.table.has_lines else None

    @property
    def where(self) -> str:
        """Where it is written: `questions.csv:17`, or `cases.py:make, row 17`."""
        name = self.table.function or locate(self.table.path, self.line)
        return name if self.table.has_lines else f"{name}, row {self.number}"

    def shown_from(self, root: Path) -> str:
        """Return where it is written, as `where`, but relative to a folder that holds it."""
        path = self.table.path
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
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
    """The values of a row, all of which are on its line."""

    def __init__(self, row: Row) -> None:
        super().__init__(row.table.path, row.values, "", {})
        self.row = None if row.table.has_lines else row.where
        self._line = row.line or 1

    @property
    def tells_case_by_line(self) -> bool:
        return True

    def line_of(self, key_path: KeyPath = ()) -> int:  # noqa: ARG002 - there is one line
        return self._line


def plain_number(value: float) -> float | None:
    """Return a number of a table; None for NaN, by which pandas and NumPy mean that there is none."""
    return None if math.isnan(value) else value


def row_of(table: Table, number: int, index: int, value: Json) -> Row:
    """Return the row of a value, which has a fault if it is no mapping."""
    if isinstance(value, dict):
        return Row(table, number, index, value)
    return Row(table, number, index, {}, f"expected a row: a mapping of columns to values, got {describe_value(value)}")
