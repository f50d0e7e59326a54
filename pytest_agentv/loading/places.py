"""Places in a file: where a value stands, and the faults noted there."""

import difflib
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from pytest_agentv.loading.problems import Problem, UnreadKey, describe_value, did_you_mean
from pytest_agentv.loading.source import Source
from pytest_agentv.loading.yaml_values import KeyPath
from pytest_agentv.models.base import Json, JsonObject

_MISSPELT: Final = 0.75
"""Stricter than where unknown keys are guessed at: `match` is no misspelling of `path`."""


@dataclass(frozen=True, slots=True)
class Place:
    """A value's place in a file; faults are noted in the list that all places of one load share."""

    source: Source
    keys: KeyPath
    problems: list[Problem]

    def at(self, *keys: str | int) -> "Place":
        return Place(self.source, self.keys + keys, self.problems)

    def error(self, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(self.source.path, self._line(), self._key(), message, hint))

    def warn(self, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(self.source.path, self._line(), self._key(), message, hint, "warning"))

    def unread(self, message: str, hint: str | None = None) -> None:
        """Note a key that nobody reads: an error, unless the run softens it (`agentv_unknown_keys`)."""
        self.problems.append(UnreadKey(self.source.path, self._line(), self._key(), message, hint))

    def expected(self, what: str, value: Json, hint: str | None = None) -> None:
        self.error(f"expected {what}, got {describe_value(value)}", hint)

    def nearby_line(self) -> int:
        """Return the line of the value, or of the case around it: finding deep values costs a parse of the file."""
        return self.source.line_of(self.keys[:2])

    def _line(self) -> int:
        return self.source.line_of(self.keys)

    def _key(self) -> str:
        """`evalcases[3].id`; in a JSONL file, where the line tells the case, just `id`."""
        keys = self.keys[1:] if self.source.tells_case_by_line else self.keys
        return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


def first_key(mapping: JsonObject, keys: Collection[str]) -> str | None:
    """Return the first of some keys, synonyms of each other, that has a value."""
    return next((key for key in keys if mapping.get(key) is not None), None)


def mapping_at(mapping: JsonObject, key: str, place: Place) -> JsonObject:
    """Return the mapping under a key; nothing there is an empty one, anything else an error."""
    value = mapping.get(key)
    if value is None or isinstance(value, dict):
        return value or {}
    place.at(key).expected("a mapping", value)
    return {}


def text_at(mapping: JsonObject, key: str, place: Place, what: str = "a text") -> str | None:
    """Return the trimmed text under a key; a missing or blank one is None, anything else an error."""
    value = mapping.get(key)
    if value is None or isinstance(value, str):
        return (value or "").strip() or None
    place.at(key).expected(what, value)
    return None


def number_at(
    mapping: JsonObject, key: str, place: Place, what: str = "a number, 0 or more", most: float = sys.float_info.max
) -> float | None:
    """Return the number under a key; a missing one is None, one below 0 or over the most an error."""
    value = mapping.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        place.at(key).expected(what, value)
        return None
    return float(value)


def warn_of_unknown_keys(mapping: JsonObject, known: Collection[str], place: Place) -> None:
    for key in mapping:
        if key not in known:
            place.at(key).warn("unknown key", did_you_mean(key, known))


def misspelling(missing: str, mapping: JsonObject, known: Collection[str]) -> str | None:
    """Return a hint if a key of a mapping that nobody knows looks like one that is missing."""
    near = misspelt_key(missing, mapping, known)
    return None if near is None else f"is {near!r} a misspelling of it?"


def misspelt_key(missing: str, mapping: JsonObject, known: Collection[str]) -> str | None:
    """Return the key of a mapping that nobody knows and that looks like one that is missing."""
    unknown = [key for key in mapping if key not in known]
    return next(iter(difflib.get_close_matches(missing, unknown, n=1, cutoff=_MISSPELT)), None)
