"""Finds and reads the tables that an eval file names, and makes entries of their rows."""

import base64
import csv
import datetime
import decimal
import io
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from pytest_agentv.cases.discovery import find_files
from pytest_agentv.cases.entries import (
    CallFunction,
    CaseEntry,
    FileKeys,
    Row,
    RowSource,
    TableSpec,
    is_function,
    row_of,
    sample,
    valid_id,
    with_defaults,
)
from pytest_agentv.cases.variables import TemplateFault, as_text, has_template, render
from pytest_agentv.errors import AgentvError, FileError, SourceError, locate
from pytest_agentv.files.places import CASE_LIST_KEYS, Layer, Place, instead_of_key
from pytest_agentv.files.problems import Problem, describe_value, near_file
from pytest_agentv.files.source import STRICT_JSON, parse_json_object, read_text, read_yaml
from pytest_agentv.model.base import Json, JsonObject, counted, mapping

# The CSV and TSV of spreadsheets: quotes, line breaks in cells, `;`, and a byte order mark.

_DELIMITERS: Final = ",;\t|"
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')


def read_delimited(path: Path) -> list[Row]:
    """Return the rows below the header. Empty cells are empty texts. Lines with only empty cells are skipped.

    A row with too few or too many cells has a fault. Raises `SourceError` for an invalid header.
    """
    lines = io.StringIO(read_text(path), newline="").readlines()
    with _long_cells():
        records = _records(lines, _delimiter(path, lines))
        number, header, fault = next(records, (1, [], None))
        if fault is not None or not any(map(str.strip, header)):
            raise SourceError(path, fault or "expected a first line with the names of the columns", number)
        columns = [name.strip() for name in header]  # empty: it has no name
        twice = [name for name, count in Counter(filter(None, columns)).items() if count > 1]
        if twice:
            raise SourceError(path, f"the column {twice[0]!r} is there twice", number)
        table = RowSource(path)
        return [
            Row(table, line, index, *_values(columns, cells, fault))
            for index, (line, cells, fault) in enumerate(records)
        ]


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


def _records(lines: list[str], delimiter: str) -> Iterator[tuple[int, list[str], str | None]]:
    """Yield the cells of each record with its first line and its fault.

    In a table of one column, a line of delimiters is a text. In others, it is a line of empty cells.
    """
    width: int | None = None
    reader = csv.reader(iter(lines), delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + 1
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
        from pyarrow import ArrowException, parquet  # noqa: PLC0415 - optional
    except ImportError:
        raise SourceError(path, "needs pyarrow: pip install 'pytest-agentv[parquet]'") from None
    try:
        rows = [_plain(row) for row in parquet.read_table(path).to_pylist()]
    except (OSError, ArrowException, ValueError, TypeError, OverflowError) as error:
        raise SourceError(path, f"cannot be read as Parquet: {' '.join(str(error).split())}") from None
    table = RowSource(path, has_lines=False)
    return [Row(table, index + 1, index, row) for index, row in enumerate(rows)]


# The rows of JSON, JSONL and YAML files.

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_OF_THE_FILE: Final = frozenset(
    (*CASE_LIST_KEYS, "$schema", "name", "version", "description", "author", "license", "metadata", "dataset")
)
"""Keys of an eval file that change none of its cases."""


def read_jsonl_rows(path: Path) -> list[Row]:
    """Return the row of each line. A line that is not a JSON object has a fault. Empty lines are skipped."""
    table = RowSource(path)
    rows: list[Row] = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                value, fault = parse_json_object(path, line, number), None
            except SourceError as error:
                value, fault = {}, error.reason
            rows.append(Row(table, number, len(rows), value, fault))
    return rows


def read_json_rows(path: Path) -> list[Row]:
    """Return the rows of a JSON list, one by one, to know their lines. Raises `SourceError` for any other file."""
    text = read_text(path)
    position = _skipped(text, 0)
    if re.match(r"\{.*\}\s*\n\s*\{", text[position:]):
        raise SourceError(path, "holds JSON lines: expected one JSON list, or a name that ends in .jsonl", 1)
    if text[position : position + 1] != "[":
        return read_yaml_rows(path)
    table, rows, line = RowSource(path), list[Row](), 1
    before, position = 0, _skipped(text, position + 1)
    while rows or text[position : position + 1] != "]":
        line, before = line + text.count("\n", before, position), position
        try:
            value, position = STRICT_JSON.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            at = getattr(error, "pos", position)
            reason = getattr(error, "msg", error)
            raise SourceError(path, f"invalid JSON: {reason}", text.count("\n", 0, at) + 1) from None
        rows.append(row_of(table, line, len(rows), value))
        position = _skipped(text, position)
        if text[position : position + 1] != ",":
            break
        position = _skipped(text, position + 1)
    if text[position : position + 1] != "]" or text[position + 1 :].strip():
        raise SourceError(path, "invalid JSON: expected `,` or the end of the list", text.count("\n", 0, position) + 1)
    return rows


def _skipped(text: str, position: int) -> int:
    return _BLANK.match(text, position).end()  # type: ignore[union-attr]


def read_yaml_rows(path: Path) -> list[Row]:
    """Return the rows of a list, perhaps the case list of an eval file. Raises `SourceError` without one."""
    source = read_yaml(path)
    value: Json = source.value
    key = next((key for key in CASE_LIST_KEYS if key in value), None) if isinstance(value, dict) else None
    keys = () if key is None else (key,)
    rows = value if key is None else value[key]
    if not isinstance(rows, list):
        raise SourceError(path, f"expected a list of rows, got {describe_value(rows)}", source.line_of(keys))
    table = RowSource(path, source=source, list_keys=keys)
    table.problems.extend(source.warnings)
    unread = [key for key in mapping(value) if key not in _OF_THE_FILE and not key.startswith("x-")]
    if unread:
        message = f"{', '.join(unread)}: not read, because only the rows of this file are taken"
        hint = "write them into the file that names it"
        table.problems.append(Problem(path, source.line_of((unread[0],)), "", message, hint, "warning"))
    return [row_of(table, source.line_of((*keys, index)), index, row) for index, row in enumerate(rows)]


# The rows that a function of the project makes.


def generated_rows(name: str, folder: Path, call: CallFunction) -> list[Row]:
    """Return the rows of a function. Raises `AgentvError`."""
    source = name.rpartition(":")[0]
    path = folder / source if source.endswith(".py") else folder
    table = RowSource(path, function=name, has_lines=False)
    return [_row(table, index, item) for index, item in enumerate(call(name, folder))]


def _row(table: RowSource, index: int, item: object) -> Row:
    try:
        if isinstance(item, Mapping):
            return Row(table, index + 1, index, _plain(item))
        fault = f"expected a mapping, got a value of type {type(item).__name__}"
    except (TypeError, ValueError) as error:
        fault = str(error)
    except RecursionError:
        fault = "holds itself, or values that are nested too deeply"
    return Row(table, index + 1, index, {}, fault)


def _plain(value: Any) -> Json:
    """Return a value of Python or pyarrow in a type of files. Raises `TypeError` for others, and `RecursionError`."""
    match value:
        case Enum():
            return _plain(value.value)
        case str():
            return str(value)
        case float():
            return None if math.isnan(value) else value
        case bool() | int() | None:
            return value
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case PathLike():
            return fspath(value)
        case decimal.Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return base64.b64encode(value).decode()
        case datetime.date() | datetime.time():
            return value.isoformat()
    raise TypeError(f"holds a value of type {type(value).__name__}: expected texts, numbers, lists and mappings")


# The tables that an eval file names.

_READERS: Final[Mapping[str, Callable[[Path], list[Row]]]] = {
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".json": read_json_rows,
    ".jsonl": read_jsonl_rows,
    ".parquet": read_parquet_rows,
    ".yaml": read_yaml_rows,
    ".yml": read_yaml_rows,
}
_MAGIC: Final = frozenset("*?[{")


def read_tables(names: Sequence[tuple[str, Place]], eval_file: Path, call: CallFunction) -> list[Row]:
    """Return the rows of files, globs and functions, in order. Paths are relative to the folder of the eval file.

    Notes an error at the place of each name that names nothing. Raises `FileError` for a file that cannot be read.
    """
    rows: list[Row] = []
    for name, place in names:
        if is_function(name):
            try:
                rows += generated_rows(name, eval_file.parent, call)
            except FileError:
                raise
            except AgentvError as error:
                place.error(str(error))
        else:
            for path in find_table(name, place, eval_file):
                found = _READERS[path.suffix.lower()](path)
                place.problems.extend(found[0].table.problems if found else ())
                rows += found
    return rows


def find_table(name: str, place: Place, eval_file: Path) -> Sequence[Path]:
    """Return the files that a name or a glob means. Notes an error if there is none."""
    folder = eval_file.parent
    path = folder / name
    if path.is_file():
        if path.suffix.lower() in _READERS:
            return (path,)
        place.error(f"{name!r} is no table: expected a name that ends in {', '.join(_READERS)}")
        return ()
    if _MAGIC.isdisjoint(name):
        if path.is_dir():
            place.error(f"{name!r} is a folder", f"name its files: {name}/*.csv")
            return ()
        if not path.exists():
            place.error(f"there is no file {locate(path, None)}", near_file(path, _READERS))
            return ()
    found = find_files(name, folder) if not _MAGIC.isdisjoint(name) else [path]
    files = [file for file in found if file.suffix.lower() in _READERS and file != eval_file]
    if not files:
        place.error(f"no table matches {name!r} in {locate(folder, None)}")
    for file in files:
        if not file.is_file():  # reading a pipe would block
            place.error(f"expected a file, but {locate(file, None)} is a pipe, a socket or a device")
    return [file for file in files if file.is_file()]


# The entries for the rows of tables.


def row_entries(spec: TableSpec, place: Place, shared: FileKeys, call: CallFunction) -> tuple[CaseEntry, ...]:
    """Return the entries of the rows of tables, or of a sample of them. `place` is that of the case list."""
    rows = read_tables(spec.names, place.path, call)
    if shared.template is not None:
        used = str(shared.template.value)
        for name in dict.fromkeys(name for row in rows for name in row.values if name.startswith("__")):
            hint = instead_of_key(name)  # promptfoo reads some of them
            if hint is not None and name not in used and any(row.values.get(name) for row in rows):
                place.warn(f"the column {name!r} is not read", hint)
        made = _templated(shared.template, rows, shared)
    else:
        made = _whole_cases(rows, shared, place)
    entries = tuple(_unlike(made))
    if spec.sample is None:
        return entries
    chosen = sample([entry.base_name or "" for entry in entries], spec.sample, spec.seed)
    return tuple(entry for index, entry in enumerate(entries) if index in chosen)


def _whole_cases(rows: Iterable[Row], shared: FileKeys, place: Place) -> Iterator[CaseEntry]:
    """Yield the entry of each row, which is a case itself."""
    line = place.source.line_of(place.keys)
    for index, row in enumerate(rows):
        written = row.values
        if row.table.path.suffix == ".parquet":  # texts may name the variables that are null
            written = {key: item if key == "vars" else _without_nulls(item) for key, item in written.items()}
        value, origins = with_defaults(written, shared.defaults)
        yield CaseEntry(index, valid_id(value), line, value, row, _fault(row, row.fault), origins)


def _without_nulls(value: Json) -> Json:
    """Return a value of Parquet, whose mappings have null for the fields that only other rows have, without these."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _templated(template: Layer, rows: Iterable[Row], shared: FileKeys) -> Iterator[CaseEntry]:
    """Yield the entry of each row, which fills the template. Only the id is filled now."""
    value, origins = with_defaults(template.value, shared.defaults)
    line = template.source.line_of(template.keys)
    variables = {**shared.variables, **mapping(mapping(value).get("vars"))}
    name = mapping(value).get("id")
    for index, row in enumerate(rows):
        known = {**variables, **row.values} if variables else row.values
        eval_id = None if row.fault else _filled_id(name, known)
        yield CaseEntry(index, eval_id, line, value, row, _fault(row, row.fault), origins)


def _fault(row: Row, message: str | None, key: str = "") -> Problem | None:
    told = None if row.table.has_lines else row.where
    return None if message is None else Problem(row.table.path, row.line, key, message, row=told)


def _filled_id(template: Json, variables: JsonObject) -> str | None:
    """Return the id of a row; None if it is invalid. Loading the case reports why."""
    if not isinstance(template, str):
        return None
    try:
        filled = as_text(render(template, variables)) if has_template(template) else template
    except TemplateFault:
        return None
    return filled if filled.strip() else None


def _unlike(entries: Iterable[CaseEntry]) -> Iterator[CaseEntry]:
    """Add a fault to each entry with the id of an earlier row."""
    first: dict[str, Row] = {}
    for entry in entries:
        row, eval_id = entry.row, entry.eval_id
        if row is None or eval_id is None or first.setdefault(eval_id, row) is row:
            yield entry
        else:
            message = f"the id {eval_id!r} is that of {first[eval_id].where} already: expected one of its own"
            yield replace(entry, fault=entry.fault or _fault(row, message, "id"))
