"""Finds JSON objects in a text, in time that grows linearly with the text.

Python's decoder starts anew at each `{`, and each failure counts the lines before it, so a reply of 400 kB can keep it
busy for a minute. This reader remembers the end of every object that it passes. So it reads each part of the text only
a few times.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.records import record
from pytest_agentv.models.text import strict_json, whole_number

DEEPEST: Final = 100
"""Levels of nesting that are read; deeper values count as broken."""

STRING: Final = r'"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*"'
SCALAR: Final = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?|true|false|null"
START: Final = re.compile(rf"\{{[ \t\n\r]*+(?:\}}|{STRING}[ \t\n\r]*+:)")
_START_OF_ANY: Final = re.compile(rf"\[|{START.pattern}")
_TOKEN: Final = re.compile(rf"[ \t\n\r]*+(?:(?P<mark>[{{}}\[\],:])|(?P<string>{STRING})|(?P<scalar>{SCALAR}))")
_CUT: Final = re.compile(r'[ \t\n\r]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*\\?|[-+.\w]*+)', re.DOTALL)
"""What is left of a text whose end cuts a value: nothing, or a part of a string, a number or a word."""
_LACKS_COMMA: Final = re.compile(r'[ \t\n\r]*+(?:\{|\[[ \t\n\r]*+[{\["])')


@record
class FoundObject:
    """A JSON object of a text."""

    value: JsonObject
    text: str
    """As it is written."""
    begin: int
    """Where it begins in the text."""


class FoundValue(NamedTuple):
    """A JSON object or list of a text."""

    value: Json
    text: str
    begin: int


def json_objects(text: str) -> Iterator[FoundObject]:
    """Yield the JSON objects of a text in order: alone, in code fences or amid prose.

    Objects within an object are parts of it and are not yielded.
    """
    return (FoundObject(*found) for found in _values(text, START))


def json_values(text: str) -> Iterator[FoundValue]:
    """Yield the JSON objects and lists of a text, as `json_objects` does. Those within another are parts of it."""
    return _values(text, _START_OF_ANY)


def _values(text: str, starts: re.Pattern[str]) -> Iterator[FoundValue]:
    reader = Reader(text)
    start = starts.search(text)
    while start:
        begin = start.start()
        found = reader.read(begin)
        if found:
            yield found
        start = starts.search(text, begin + len(found.text) if found else begin + 1)


def json_object(text: str) -> JsonObject | None:
    """Return the JSON object of a text; None for any other text."""
    try:
        value = strict_json(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def first_json_object(text: str, accepts: Callable[[JsonObject], bool]) -> JsonObject | None:
    """Return the first acceptable JSON object of a text."""
    return next((found.value for found in json_objects(text) if accepts(found.value)), None)


@dataclass(slots=True)
class _Open:
    """A list or object whose end is not reached yet."""

    begin: int
    value: Json
    key: str = ""

    def add(self, item: Json) -> None:
        if isinstance(self.value, dict):
            self.value[self.key] = item
        else:
            self.value.append(item)


class Reader:
    """Reads objects and lists of a text, and remembers the ends of all that are in them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.broken_lists: set[int] = set()
        """Where lists begin that are cut or broken. A bracket of prose begins no list."""
        self._fates: dict[int, tuple[int, Json] | None] = {}
        """By the start of an object or a list, its end and value. None: it is broken."""
        self._open: list[_Open] = []
        self._expects = "value"

    def read(self, begin: int) -> FoundValue | None:
        """Return the object or list that begins at a position; None if it is cut or broken."""
        if begin not in self._fates:
            self._read(begin)
        return self.known(begin)

    def known(self, begin: int) -> FoundValue | None:
        """Return the object or list that begins at a position, if it was read."""
        fate = self._fates.get(begin)
        return fate and FoundValue(fate[1], self.text[begin : fate[0]], begin)

    def _read(self, begin: int) -> None:
        self._open, self._expects, position = [], "value", begin
        while (token := _TOKEN.match(self.text, position)) and self._take(token):
            position = token.end()
            if not self._open:
                return
        # A fault breaks the open values, but no complete ones.
        self._fates |= dict.fromkeys(part.begin for part in self._open)
        self._fates.setdefault(begin, None)
        is_data = _CUT.fullmatch(self.text, position) or _LACKS_COMMA.match(self.text, position)
        inner: _Open | None = None
        for part in reversed(self._open):
            if isinstance(part.value, list) and (is_data or self._is_list(part.value, inner)):
                self.broken_lists.add(part.begin)
            inner = part

    def _is_list(self, items: list[Json], inner: _Open | None) -> bool:
        """Return whether a bracket begins a list that is broken: data of JSON is in it, and not only numbers."""
        if any(isinstance(item, dict | list) for item in items) or (inner and items):
            return True
        if inner:
            return isinstance(inner.value, dict) or inner.begin in self.broken_lists
        # A text is data if another item follows: `["']` in a pattern is no list.
        return any(isinstance(item, str) for item in items) and (len(items) > 1 or self._expects == "value")

    def _take(self, token: re.Match[str]) -> bool:
        """Read the next token. Return whether it is allowed there."""
        mark = token["mark"]
        if mark is None:
            return self._take_scalar(token)
        if mark in "{[":
            return self._enter(token.start("mark"), {} if mark == "{" else [])
        if mark in "}]":
            return self._leave(mark, token.end())
        if self._expects != {":": "colon", ",": "comma"}[mark]:
            return False
        self._expects = "value" if mark == ":" or isinstance(self._open[-1].value, list) else "key"
        return True

    def _enter(self, begin: int, value: Json) -> bool:
        if self._expects not in ("value", "first value") or len(self._open) == DEEPEST:
            return False
        self._open.append(_Open(begin, value))
        self._expects = "first key" if isinstance(value, dict) else "first value"
        return True

    def _leave(self, mark: str, end: int) -> bool:
        is_object = mark == "}"
        if self._expects not in ("comma", "first key" if is_object else "first value"):
            return False
        if isinstance(self._open[-1].value, dict) is not is_object:
            return False
        closed = self._open.pop()
        self._fates[closed.begin] = (end, closed.value)
        if self._open:
            self._open[-1].add(closed.value)
        self._expects = "comma"
        return True

    def _take_scalar(self, token: re.Match[str]) -> bool:
        try:
            value = _scalar(token)
        except ValueError:  # an invalid escape
            return False
        if self._expects in ("key", "first key") and token["string"]:
            self._open[-1].key = value
            self._expects = "colon"
            return True
        if self._expects not in ("value", "first value"):
            return False
        self._open[-1].add(value)
        self._expects = "comma"
        return True


def _scalar(token: re.Match[str]) -> Json:
    text = token["string"]
    if text is None:
        return strict_json(token["scalar"], whole_number)
    return json.loads(text) if "\\" in text else text[1:-1]
