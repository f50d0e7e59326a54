"""Places of values in a file, where faults are noted."""

import difflib
import re
import sys
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final

from pytest_agentv.loading.files.source import Source
from pytest_agentv.loading.files.yaml_values import KeyPath
from pytest_agentv.loading.problems import (
    ASKS_NOTHING,
    BlankInput,
    Hint,
    Problem,
    UnreadKey,
    describe_value,
    did_you_mean,
    near_word,
)
from pytest_agentv.models.base import Json, JsonObject, is_number
from pytest_agentv.models.records import record
from pytest_agentv.models.text import format_number

_MISSPELT: Final = 0.75
"""Higher than the cutoff for unknown keys, because `match` is not a misspelling of `path`."""


@record
class Place:
    """A value's place in a file. All places of one load note faults in the same list."""

    source: Source
    keys: KeyPath
    problems: list[Problem]

    def at(self, *keys: str | int) -> "Place":
        return Place(self.source, self.keys + keys, self.problems)

    @property
    def path(self) -> Path:
        """The file in which the value is written."""
        return self.source.origin(self.keys)[0].path

    def error(self, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(self.path, self.line, self.key, message, hint, row=self.source.row))

    def warn(self, message: str, hint: str | None = None) -> None:
        """Note a warning. It names no row: it is shown once, not for each row of a table."""
        self.problems.append(Problem(self.path, self.line, self.key, message, hint, "warning"))

    def suggest(self, message: str, hint: str | None = None) -> None:
        """Note a likely mistake: a warning that is no error in a strict run."""
        self.problems.append(Hint(self.path, self.line, self.key, message, hint, "warning"))

    def warn_of_blank(self) -> None:
        """Warn that a case asks nothing. The warning names the row of a table, because other rows may be fine."""
        blank = BlankInput(self.path, self.line, self.key, ASKS_NOTHING, None, "warning", self.source.row)
        self.problems.append(blank)

    def unread(self, message: str, hint: str | None = None) -> None:
        """Note an unknown key: an error, unless the run makes it a warning (`agentv_unknown_keys`)."""
        self.problems.append(UnreadKey(self.path, self.line, self.key, message, hint, row=self.source.row))

    def expected(self, what: str, value: Json, hint: str | None = None) -> None:
        self.error(f"expected {what}, got {describe_value(value)}", hint)

    def quotes(self, value: Json) -> str | None:
        """Return the hint to put a number into quotes. It shows the number where it is written so: 007 is not "7"."""
        if not is_number(value):
            return None
        number = format_number(value)
        source, keys = self.source.origin(self.keys)
        line = next(islice(_lines_of(source.text), source.line_of(keys) - 1, None), "")
        is_written = re.search(rf"(?<![\w.+-]){re.escape(number)}(?![\w.])", line) is not None
        return f'put it into quotes: "{number}"' if is_written else "put it into quotes as it is written"

    @property
    def line(self) -> int | None:
        """The line of the value; None in a file without lines."""
        source, keys = self.source.origin(self.keys)
        return source.line_of(keys) if source.has_lines else None

    @property
    def key(self) -> str:
        """Return `evalcases[3].id`, or just `id` in a JSONL file, where the line identifies the case."""
        source, keys = self.source.origin(self.keys)
        keys = keys[1:] if source.tells_case_by_line else keys
        return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


@lru_cache(maxsize=2)
def _lines_of(text: str) -> list[str]:
    """Return the lines of a file, which may have many faults."""
    return text.split("\n")


@record
class RenamedPlace(Place):
    """The place of a mapping with some keys that are written elsewhere in the file."""

    homes: Mapping[str, KeyPath]
    """The written places of keys, below this place."""

    def at(self, *keys: str | int) -> Place:
        if not keys:
            return self
        first = self.homes.get(keys[0]) if isinstance(keys[0], str) else None
        return Place(self.source, self.keys + (keys if first is None else (*first, *keys[1:])), self.problems)


def first_key(mapping: JsonObject, keys: Collection[str]) -> str | None:
    """Return the first of some synonymous keys that has a value."""
    for key in keys:
        if mapping.get(key) is not None:
            return key
    return None


def has_text(values: JsonObject, part: str) -> bool:
    """Whether a value of a mapping, or an item of a list in it, is a text that contains another one."""
    items = (item for value in values.values() for item in (value if isinstance(value, list | tuple) else (value,)))
    return any(isinstance(item, str) and part in item for item in items)


def mapping_at(mapping: JsonObject, key: str, place: Place) -> JsonObject:
    """Return the mapping under a key, or an empty one without the key. Notes an error for other values."""
    value = mapping.get(key)
    if value is None or isinstance(value, dict):
        return value or {}
    place.at(key).expected("a mapping", value)
    return {}


def text_at(mapping: JsonObject, key: str, place: Place) -> str | None:
    """Return the trimmed text under a key; None if it is missing or blank. Notes an error for other values."""
    value = mapping.get(key)
    if value is None or isinstance(value, str):
        return (value or "").strip() or None
    place.at(key).expected("a text", value)
    return None


def number_at(
    mapping: JsonObject, key: str, place: Place, what: str = "a number, 0 or more", most: float = sys.float_info.max
) -> float | None:
    """Return the number under a key; None if it is missing. Notes an error below 0 or above `most`."""
    value = mapping.get(key)
    if value is None:
        return None
    if not is_number(value) or not 0 <= value <= most:
        place.at(key).expected(what, value)
        return None
    return float(value)


def warn_of_unknown_keys(
    mapping: JsonObject, known: Collection[str], place: Place, is_refused: Callable[..., bool] = lambda *_: False
) -> None:
    """Warn of unknown keys. Those that are refused are noted by `Place.unread`."""
    for key, value in mapping.items():
        if key not in known:
            from pytest_agentv.loading.foreign_keys import instead_of_key  # noqa: PLC0415 - most files have no such fault

            note = place.at(key).unread if is_refused(key, value) else place.at(key).warn
            note("unknown key", instead_of_key(key) or did_you_mean(key, known))


def misspelling(missing: str, mapping: JsonObject, known: Collection[str]) -> str | None:
    """Return a hint if an unknown key of a mapping looks like a missing key."""
    near = misspelt_key(missing, mapping, known)
    return None if near is None else f"is {near!r} a misspelling of it?"


def misspelt_key(
    missing: str, mapping: JsonObject, known: Collection[str], spellings: Collection[str] = ()
) -> str | None:
    """Return an unknown key of a mapping that looks like a missing key, or for which a spelling of it is suggested."""
    unknown = [key for key in mapping if key not in known]
    if not unknown:
        return None
    near = next(iter(difflib.get_close_matches(missing, unknown, n=1, cutoff=_MISSPELT)), None)
    return near or next((key for key in unknown if near_word(key, known) in spellings), None)
