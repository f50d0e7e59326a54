"""Finds and reads the tables that an eval file names, and makes entries of their rows."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

from pytest_agentv.cases.discovery import find_files
from pytest_agentv.cases.entries import (
    CallFunction,
    CaseEntry,
    Row,
    Shared,
    Table,
    TableSpec,
    is_function,
    plain_number,
    row_of,
    sample,
    valid_id,
    with_defaults,
)
from pytest_agentv.cases.table_files import read_delimited, read_parquet_rows
from pytest_agentv.cases.variables import TemplateFault, as_text, has_template, render
from pytest_agentv.errors import AgentvError, FileError, SourceError, locate
from pytest_agentv.files.places import CASE_LIST_KEYS, HEADER_KEYS, REFUSED, Layer, Place, column_fault
from pytest_agentv.files.problems import Problem, describe_value, near_file
from pytest_agentv.files.source import STRICT_JSON, parse_json_object, read_text, read_yaml, within_memory
from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.text import require_readable

# The rows of JSON, JSONL and YAML files.

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_OF_THE_FILE: Final = frozenset(
    (*CASE_LIST_KEYS, "$schema", "name", "version", "description", "author", "license", "metadata", "dataset")
)
"""Keys of an eval file that change none of its cases."""


def read_jsonl_rows(path: Path) -> list[Row]:
    """Return the row of each line. A line that is not a JSON object has a fault. Empty lines are skipped."""
    table = Table(path)
    rows: list[Row] = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                value, fault = parse_json_object(path, line, number), None
            except SourceError as error:
                value, fault = {}, str(error).removeprefix(f"{locate(path, number)}: ")
            rows.append(Row(table, number, len(rows), value, fault))
    return rows


def read_json_rows(path: Path) -> list[Row]:
    """Return the rows of a JSON list. Raises `SourceError` for any other file."""
    text = read_text(path)
    start = _BLANK.match(text).end()  # type: ignore[union-attr]
    if re.match(r"\{.*\}\s*\n\s*\{", text[start:]):
        raise SourceError(path, "holds JSON lines: expected one JSON list, or a name that ends in .jsonl", 1)
    return _json_list(path, text, start + 1) if text[start : start + 1] == "[" else read_yaml_rows(path)


def _json_list(path: Path, text: str, position: int) -> list[Row]:
    """Read the items of a list one by one, to know their lines."""
    table, decode = Table(path), STRICT_JSON.raw_decode
    rows: list[Row] = []
    line, counted = 1, 0
    while True:
        position = _BLANK.match(text, position).end()  # type: ignore[union-attr]
        line, counted = line + text.count("\n", counted, position), position
        if text[position : position + 1] == "]" and not rows:
            break
        try:
            value, position = decode(text, position)
        except (ValueError, RecursionError) as error:
            at = getattr(error, "pos", position)
            reason = (
                getattr(error, "msg", error) if isinstance(error, ValueError) else "the values are nested too deeply"
            )
            raise SourceError(path, f"invalid JSON: {reason}", text.count("\n", 0, at) + 1) from None
        rows.append(row_of(table, line, len(rows), value))
        position = _BLANK.match(text, position).end()  # type: ignore[union-attr]
        if text[position : position + 1] != ",":
            break
        position += 1
    rest = text[position:]
    if rest[:1] != "]" or rest[1:].strip():
        raise SourceError(path, "invalid JSON: expected `,` or the end of the list", text.count("\n", 0, position) + 1)
    return rows


def read_yaml_rows(path: Path) -> list[Row]:
    """Return the rows of a list, perhaps the case list of an eval file. Raises `SourceError` without one."""
    source = read_yaml(path)
    value: Json = source.value
    key = next((key for key in CASE_LIST_KEYS if key in value), None) if isinstance(value, dict) else None
    keys = () if key is None else (key,)
    rows = value if key is None else value[key]
    if not isinstance(rows, list):
        raise SourceError(path, f"expected a list of rows, got {describe_value(rows)}", source.line_of(keys))
    table = Table(path, source=source, list_keys=keys)
    table.problems.extend(source.warnings)
    if isinstance(value, dict):
        unread = [key for key in value if key in HEADER_KEYS - _OF_THE_FILE or key in REFUSED]
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
                with within_memory(path):
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
        if path.exists():
            _note_no_file(path, place)
            return ()
        place.error(f"there is no file {locate(path, None)}", near_file(path, _READERS))
        return ()
    found = find_files(name, folder)
    files = [file for file in found if file.suffix.lower() in _READERS and file != eval_file]
    if not files:
        place.error(f"no table matches {name!r} in {locate(folder, None)}")
    for file in files:
        if not file.is_file():
            _note_no_file(file, place)
    return [file for file in files if file.is_file()]


def _note_no_file(path: Path, place: Place) -> None:
    """Note an error for what is no regular file: reading a pipe would block."""
    place.error(f"expected a file, but {locate(path, None)} is a pipe, a socket or a device")


# The entries for the rows of tables.


def row_entries(spec: TableSpec, place: Place, shared: Shared, call: CallFunction) -> tuple[CaseEntry, ...]:
    """Return the entries of the rows of tables, or of a sample of them.

    `place` is that of the case list. `call` calls functions that make rows.
    """
    rows = read_tables(spec.names, place.path, call)
    if shared.template is None:
        line = place.source.line_of(place.keys)
        made = []
        for index, row in enumerate(rows):
            value, origins = with_defaults(row.case, shared.defaults)
            eval_id = None if row.fault else valid_id(value)
            made.append(CaseEntry(index, eval_id, line, value, row, _row_fault(row), origins))
    else:
        _warn_of_columns(rows, shared.template, place)
        made = list(_templated(shared.template, rows, shared))
    entries = tuple(_unlike(made))
    if spec.sample is None:
        return entries
    chosen = sample([entry.base_name or "" for entry in entries], spec.sample, spec.seed)
    return tuple(entry for index, entry in enumerate(entries) if index in chosen)


def _row_fault(row: Row) -> Problem | None:
    """Return why a row cannot be read."""
    if row.fault is None:
        return None
    told = None if row.table.has_lines else row.where
    return Problem(row.table.path, row.line, "", row.fault, row=told)


def _warn_of_columns(rows: Iterable[Row], template: Layer, place: Place) -> None:
    """Warn once of each column that promptfoo reads by its name, unless the template uses it."""
    names = {
        name: row for row in reversed([*rows]) for name in row.values if name.startswith("__") and row.values[name]
    }
    if not names:
        return

    used = str(template.value)
    for name, row in names.items():
        fault = column_fault(name)
        if fault is not None and not re.search(rf"\b{name}\b", used):
            what, hint = fault
            place.warn(f"the column {name!r} of {row.where} is not read: {what}", hint)


def _templated(template: Layer, rows: Iterable[Row], shared: Shared) -> Iterator[CaseEntry]:
    """Yield the entry of each row. Only the id is filled now."""
    value, origins = with_defaults(template.value, shared.defaults)
    line = template.source.line_of(template.keys)
    own = value.get("vars")
    variables = {**shared.variables, **(own if isinstance(own, dict) else {})}
    for index, row in enumerate(rows):
        known = {**variables, **row.values} if variables else row.values
        eval_id = None if row.fault else _filled_id(value.get("id"), known)
        yield CaseEntry(index, eval_id, line, value, row, _row_fault(row), origins)


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
            told = None if row.table.has_lines else row.where
            fault = entry.fault or Problem(row.table.path, row.line, "id", message, row=told)
            yield CaseEntry(entry.index, eval_id, entry.line, entry.value, row, fault, entry.origins)
