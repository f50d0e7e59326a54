"""Reads YAML and JSONL files to plain values, and finds the line of each value."""

import gc
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

from pytest_agentv.errors import NO_REGULAR_FILE, TOO_LARGE, SourceError
from pytest_agentv.loading.files.yaml_values import KeyPath, build_yaml
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import Json, JsonObject

Origins: TypeAlias = "Mapping[KeyPath, tuple[Source, KeyPath]]"
"""The places of a mapping's inherited values, by their paths in it."""

_SHALLOW: Final = 2
"""The depth to which line numbers are kept: that of cases. A second parse finds deeper lines for a problem."""
_DEEP: Final = 1_000
_SURROGATES: Final = re.compile(r"(?<!\\)((?:\\\\)*)(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})")


class Source:
    """The values of a file and their lines."""

    row: str | None = None
    """The row of a table from which the values were made: `questions.csv:17`."""

    def __init__(
        self,
        path: Path,
        value: Json,
        text: str,
        lines: dict[KeyPath, int],
        unread_tags: Sequence[tuple[int, str]] = (),
    ) -> None:
        self.path = path
        self.value = value
        self.text = text
        self._lines = lines
        self._unread_tags = unread_tags

    @property
    def warnings(self) -> Sequence[Problem]:
        """One for each YAML tag that is not read. AgentV warns, too, and reads the value without the tag."""
        hint = "we do not read it; a text that begins with ! needs quotes"
        return [
            Problem(self.path, line, "", f"unknown YAML tag {tag}: only the value behind it counts", hint, "warning")
            for line, tag in self._unread_tags
        ]

    @property
    def tells_case_by_line(self) -> bool:
        """Whether each case has its own line, so that messages need no case number."""
        return self.path.suffix == ".jsonl"

    @property
    def has_lines(self) -> bool:
        """Whether a message can name a line. Parquet files and functions have rows without lines."""
        return True

    def line_of(self, key_path: KeyPath = ()) -> int:
        """Return the 1-based line of a value (in a mapping, of its key), or of the nearest value around it."""
        lines = self._lines
        if len(key_path) > _SHALLOW and not self.tells_case_by_line:
            lines = _deep_lines(self)
        while key_path and key_path not in lines:
            key_path = key_path[:-1]
        return lines.get(key_path, 1)

    def origin(self, key_path: KeyPath) -> "tuple[Source, KeyPath]":
        """Return the file of a value, and its path there."""
        return self, key_path


class JsonlSource(Source):
    """The values of a JSONL file, one on each line that is not blank."""

    def __init__(self, path: Path, values: Sequence[Json] | None, text: str, numbers: Sequence[int]) -> None:
        super().__init__(path, values, text, {})
        self._numbers = numbers

    def line_of(self, key_path: KeyPath = ()) -> int:
        index = key_path[0] if key_path else None
        return self._numbers[index] if isinstance(index, int) and index < len(self._numbers) else 1

    def lines_only(self) -> "JsonlSource":
        """Return the source without its values and its text, which take most of the memory of a large file."""
        return JsonlSource(self.path, None, "", self._numbers)


class LayeredSource(Source):
    """A source with inherited values in one mapping, so that faults are shown where the values are written.

    Args:
        base: The source of all other values.
        where: The path of the mapping in `base`.
        origins: The places of the mapping's inherited values.
        row: The row of a table from which the mapping was made.
    """

    def __init__(self, base: Source, where: KeyPath, origins: Origins, row: str | None = None) -> None:
        super().__init__(base.path, base.value, base.text, {})
        self.row = row
        self._base = base
        self._where = where
        self._origins = origins

    @property
    def tells_case_by_line(self) -> bool:
        return self._base.tells_case_by_line

    def line_of(self, key_path: KeyPath = ()) -> int:
        source, keys = self.origin(key_path)
        return source.line_of(keys)

    @property
    def warnings(self) -> Sequence[Problem]:
        found = [self._base, *(source for source, _ in self._origins.values())]
        return list(dict.fromkeys(each for source in found for each in source.warnings))

    def origin(self, key_path: KeyPath) -> tuple[Source, KeyPath]:
        depth = len(self._where)
        if key_path[:depth] == self._where:
            for end in range(len(key_path), depth, -1):
                if found := self._origins.get(key_path[depth:end]):
                    return found[0].origin(found[1] + key_path[end:])
        return self._base.origin(key_path)


def read_yaml(path: Path) -> Source:
    """Read a file of one YAML document. Raises `SourceError` with the line of the first fault."""
    with within_memory(path):
        text = _join_surrogates(read_text(path))
        with _no_garbage_collection():
            built = build_yaml(path, text, _SHALLOW)
        return Source(path, built.value, text, built.lines, built.unread_tags)


def read_jsonl(path: Path) -> JsonlSource:
    """Read a file with one JSON object per line into a list. Raises `SourceError` with the line of the first fault."""
    values: list[Json] = []
    numbers: list[int] = []
    with within_memory(path):
        text = read_text(path)
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                numbers.append(number)
                values.append(parse_json_object(path, line, number))
        return JsonlSource(path, values, text, numbers)


@contextmanager
def within_memory(path: Path) -> Iterator[None]:
    """Raise `SourceError` if memory does not suffice for a file."""
    try:
        yield
    except MemoryError:
        raise SourceError(path, f"cannot be read: {TOO_LARGE}") from None


def parse_json_object(path: Path, line: str, number: int) -> Json:
    """Return the object of a line of a JSONL file. Raises `SourceError`."""
    try:
        value = STRICT_JSON.decode(line)
    except json.JSONDecodeError as error:
        raise SourceError(path, f"invalid JSON: {error.msg} (column {error.colno})", number) from None
    except ValueError as error:
        raise SourceError(path, f"invalid JSON: {error}", number) from None
    except RecursionError:
        raise SourceError(path, "the values are nested too deeply", number) from None
    if not isinstance(value, dict):
        raise SourceError(path, f"expected a JSON object, got {line.strip()[:40]}", number)
    return value


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _unlike_keys(pairs: list[tuple[str, Json]]) -> JsonObject:
    """Return a mapping of pairs. Raises `ValueError` for a duplicate key, because one value would be lost."""
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} is there twice")
    return value


def _read_integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # Python's own message names one of its functions
        raise ValueError("a number has more digits than can be read") from None


STRICT_JSON: Final = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_int=_read_integer, object_pairs_hook=_unlike_keys
)
"""Decodes users' JSON. Raises `ValueError` for `NaN` and for duplicate keys in a mapping."""


@lru_cache
def folder_of(path: Path) -> Path:
    """Return the folder of a file. Cached, because making and hashing a path is slow."""
    return path.parent


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file without its byte order mark. Raises `SourceError`."""
    try:
        if path.exists() and not path.is_file():  # reading a pipe would block
            raise SourceError(path, f"cannot be read: {NO_REGULAR_FILE}")
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SourceError(path, f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise SourceError(path, f"is not UTF-8: byte 0x{error.object[error.start]:02x}", line) from None


def _join_surrogates(text: str) -> str:
    """Join the two escapes of JSON for a character above U+FFFF. AgentV reads them, but YAML parsers do not."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _SURROGATES.sub(lambda pair: pair[1] + json.loads(f'"{pair[2]}"'), text)


@lru_cache(maxsize=2)
def _deep_lines(source: Source) -> dict[KeyPath, int]:
    return build_yaml(source.path, source.text, _DEEP)[1]


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Turn garbage collection off. It would scan millions of new values, find nothing and double the parse time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
