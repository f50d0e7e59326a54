"""Reads the rows of CSV, TSV and Parquet files."""

import base64
import csv
import datetime
import decimal
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pytest_agentv.cases.entries import Row, Table, plain_number
from pytest_agentv.errors import SourceError, locate
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.text import counted

# The CSV and TSV of spreadsheets: quotes, line breaks in cells, `;`, and a byte order mark.

_DELIMITERS: Final = ",;\t|"
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')
_EXCEL_HEAD: Final = re.compile(r"sep=(.)\r?\n?", re.IGNORECASE)
"""A first line that tells Excel the delimiter."""
_FIRST_LINE: Final = re.compile(rb"[^\r\n]*")
_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")
_QUOTE_HINT: Final = 'the text "a is written as """a"'
_LINES: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def read_delimited(path: Path) -> list[Row]:
    """Return the rows below the header. Empty cells are empty texts. Lines with only empty cells are skipped.

    A row with too few or too many cells has a fault. Raises `SourceError` for an invalid header.
    """
    lines = _LINES.findall(_read_text(path))
    head = _EXCEL_HEAD.fullmatch(lines[0]) if lines else None
    skipped = 0 if head is None else 1
    delimiter = head[1] if head else _delimiter(path, lines)
    with _long_cells():
        records = _records(lines[skipped:], delimiter, skipped)
        number, header, fault = next(records, (1, [], None))
        if fault is not None or not any(map(str.strip, header)):
            raise SourceError(path, fault or "expected a first line with the names of the columns", number)
        columns = [name.strip() for name in header]  # empty: it has no name
        twice = [name for name, count in Counter(filter(None, columns)).items() if count > 1]
        if twice:
            raise SourceError(path, f"the column {twice[0]!r} is there twice", number)
        table = Table(path)
        if delimiter == "\t":
            records = _noting_joined_rows(records, len(columns), table)
        known = _noting_lost_cells(records, columns, table, number)
        return [
            Row(table, line, index, *_values(columns, cells, fault)) for index, (line, cells, fault) in enumerate(known)
        ]


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            encoding = _encoding(path, file.peek(1))
            data = file.read()
    except OSError as error:
        raise SourceError(path, f"cannot be read: {error.strerror or error}") from None
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        fault = f"is not UTF-8: byte 0x{data[error.start]:02x} (save it as CSV UTF-8)"
        raise SourceError(path, fault, line) from None


def _encoding(path: Path, beginning: bytes) -> str:
    """Return the encoding of a file. Raises `SourceError` for NUL bytes in the first line, which no text has there."""
    if beginning.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in _FIRST_LINE.match(beginning)[0]:  # type: ignore[index]
        raise SourceError(path, "is no text: its first line holds NUL bytes (save it as CSV UTF-8)", 1)
    return "utf-8-sig"


def _delimiter(path: Path, lines: list[str]) -> str:
    """Return the delimiter that is most frequent in the header."""
    if path.suffix.lower() == ".tsv":
        return "\t"
    first = _QUOTED.sub("", next((line for line in lines if line.strip()), ""))
    return max(_DELIMITERS, key=first.count)


@contextmanager
def _long_cells() -> Iterator[None]:
    """Allow cells of more than 128 kB. The limit is for the whole process."""
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _records(lines: list[str], delimiter: str, skipped: int) -> Iterator[tuple[int, list[str], str | None]]:
    """Yield the cells of each record with its first line and its fault.

    In a table of one column, a line of delimiters is a text. In others, it is a line of empty cells.
    """
    width: int | None = None
    reader = csv.reader(iter(lines), delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + skipped + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reason = str(error)
            if "unexpected end of data" in reason:
                reason = 'a quote (") is opened and never closed; no row below is read'
            yield number, [], f"is no valid CSV: {reason}"
            continue
        if any(map(str.strip, cells)) or (width == 1 and len(cells) > 1):
            width = width or len(cells)
            yield number, cells, None


def _noting_joined_rows(
    records: Iterator[tuple[int, list[str], str | None]], width: int, table: Table
) -> Iterator[tuple[int, list[str], str | None]]:
    """Yield the records of tabs. Warns once of a quoted cell whose lines are like rows.

    A program that quotes nothing has written it. An honest cell may hold tabs too: code has them at the start of lines.
    """
    is_told = width < 2
    for line, cells, fault in records:
        if not is_told and any("\n" in cell or "\r" in cell for cell in cells):
            parts = _LINE_BREAK.split("\t".join(cells))
            is_told = all(part.count("\t") == width - 1 and part[0] != "\t" for part in parts)
            if is_told:
                last = line + len(parts) - 1
                what = f'a quote (") makes the lines {line} to {last} one row, though each is like a row of its own'
                table.problems.append(Problem(table.path, line, "", what, _QUOTE_HINT, level="warning"))
        yield line, cells, fault


def _noting_lost_cells(
    records: Iterator[tuple[int, list[str], str | None]], columns: list[str], table: Table, header: int
) -> Iterator[tuple[int, list[str], str | None]]:
    """Yield the records. Warns of columns that have no name but values."""
    nameless = {position for position, name in enumerate(columns) if not name}
    for line, cells, fault in records:
        for position in sorted(nameless) if nameless and len(cells) >= len(columns) else ():
            # pandas and R write the number of a row before it
            is_row_number = position == 0 and cells[0].strip().isdecimal()
            if cells[position].strip() and not is_row_number:
                nameless.remove(position)
                where = locate(table.path, line)
                what = f"column {position + 1} has no name: its cells, such as that of {where}, are not read"
                table.problems.append(Problem(table.path, header, "", what, level="warning"))
        yield line, cells, fault


def _values(columns: list[str], cells: list[str], fault: str | None) -> tuple[dict[str, str], str | None]:
    if fault is not None:
        return {}, fault
    if len(cells) != len(columns):
        more = cells[len(columns) :]
        # some programs end each line with delimiters; in a table of one column, it may be the end of a text
        if not more or any(more) or len(columns) == 1:
            hint = " (a text with a delimiter needs quotes)" if more else ""
            wanted = f"expected {len(columns):,}, as many as the header has"
            return {}, f"has {counted(len(cells), 'cell')}: {wanted}{hint}"
    return {name: cell for name, cell in zip(columns, cells, strict=False) if name}, None


# Parquet. pyarrow is optional, and starts threads when it is imported: so only the function imports it.


def read_parquet_rows(path: Path) -> list[Row]:
    """Return the rows. Dates become texts. Raises `SourceError` without pyarrow, and for what it cannot read."""
    try:
        from pyarrow import ArrowException  # noqa: PLC0415 - optional
        from pyarrow.parquet import read_table  # noqa: PLC0415 - optional
    except ImportError:
        raise SourceError(path, "needs pyarrow: pip install 'pytest-agentv[parquet]'") from None
    try:
        rows = [_plain(row) for row in read_table(path).to_pylist()]
    except (OSError, ArrowException, ValueError, OverflowError) as error:
        raise SourceError(path, f"cannot be read as Parquet: {' '.join(str(error).split())}") from None
    table = Table(path, has_lines=False, fills_structs=True)
    return [Row(table, index + 1, index, row) for index, row in enumerate(rows)]


def _plain(value: Any) -> Any:
    """Return a value of pyarrow as a value of files. Bytes that are no text become base64."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        return plain_number(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return value if isinstance(value, str | bool | int | None) else str(value)
