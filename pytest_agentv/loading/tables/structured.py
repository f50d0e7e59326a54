"""Reads the rows of JSON, JSONL and YAML files."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_agentv.errors import SourceError, locate
from pytest_agentv.loading.files.source import STRICT_JSON, Source, parse_json_object, read_text, read_yaml
from pytest_agentv.loading.keys import CASE_LIST_KEYS, HEADER_KEYS, REFUSED
from pytest_agentv.loading.problems import Problem, describe_value
from pytest_agentv.loading.tables.rows import Row, Table, row_of
from pytest_agentv.models.base import Json, JsonObject

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
    return _json_list(path, text, start + 1) if text[start : start + 1] == "[" else read_yaml_rows(path)


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
        table.problems.extend(_unread_keys(source, value))
    return [row_of(table, source.line_of((*keys, index)), index, row) for index, row in enumerate(rows)]


def _unread_keys(source: Source, header: JsonObject) -> Iterator[Problem]:
    """Yield a warning if an eval file says more of its cases than their list does."""
    unread = [key for key in header if key in HEADER_KEYS - _OF_THE_FILE or key in REFUSED]
    if unread:
        message = f"{', '.join(unread)}: not read, because only the rows of this file are taken"
        hint = "write them into the file that names it"
        yield Problem(source.path, source.line_of((unread[0],)), "", message, hint, "warning")


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
