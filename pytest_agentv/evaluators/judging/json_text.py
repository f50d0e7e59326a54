"""Finds JSON objects in a text, in time that grows linearly with the text.

Python's decoder starts anew at each `{`, and each failure counts the lines before it, so a reply of 400 kB can keep it
busy for a minute. This reader remembers the end of every object that it passes. So it reads each part of the text only
a few times.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.records import record
from pytest_agentv.models.text import strict_json, whole_number

DEEPEST: Final = 100
"""Levels of nesting that are read; deeper values count as broken."""

_STRING: Final = r'"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*"'
_START: Final = re.compile(rf"\{{[ \t\n\r]*+(?:\}}|{_STRING}[ \t\n\r]*+:)")
_START_OF_ANY: Final = re.compile(rf"\[|{_START.pattern}")
_BRACE: Final = re.compile(r"""\{(?P<object>(?=[ \t\n\r]*(?:["']|\w++[ \t]*:)))?|\}""")
_TOKEN: Final = re.compile(
    rf"[ \t\n\r]*+(?:(?P<mark>[{{}}\[\],:])|(?P<string>{_STRING})|"
    r"(?P<scalar>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?|true|false|null))"
)
_CUT: Final = re.compile(r'[ \t\n\r]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*\\?|[-+.\w]*+)', re.DOTALL)
"""What is left of a text whose end cuts a value: nothing, or a part of a string, a number or a word."""


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


_Fates: TypeAlias = dict[int, tuple[int, Json] | None]
"""By the start of an object or a list, its end and value. None: it is broken."""


def json_objects(text: str) -> Iterator[FoundObject]:
    """Yield the JSON objects of a text in order: alone, in code fences or amid prose.

    Objects within an object are parts of it and are not yielded.
    """
    return (FoundObject(*found) for found in _values(text, _START, {}))


def outer_objects(text: str) -> Iterator[FoundObject]:
    """Yield the JSON objects of a text that are no parts of a value that is cut, or of an object that is broken.

    A quotation mark in a text breaks an object. A brace that begins no object, as in code, does not count.
    """
    return (FoundObject(*found) for found in _outer(text, _START))


def outer_values(text: str) -> Iterator[FoundValue]:
    """Yield the JSON objects and lists of a text, as `outer_objects` does."""
    return _outer(text, _START_OF_ANY)


def _outer(text: str, starts: re.Pattern[str]) -> Iterator[FoundValue]:
    open_braces: list[bool] = []
    broken = done = 0
    fates: _Fates = {}
    for found in _values(text[: _cut_list(text, fates)], starts, fates):
        for brace in _BRACE.finditer(text, done, found.begin):
            if brace[0].startswith("{"):
                open_braces.append(brace["object"] is not None)
                broken += open_braces[-1]
            elif open_braces:
                broken -= open_braces.pop()
        done = found.begin + len(found.text)
        if not broken:
            yield found


def _cut_list(text: str, fates: _Fates) -> int | None:
    """Return where a list begins that the end of the text cuts. A bracket in prose begins no list that goes so far.

    Adds what is read on the way to the fates.
    """
    attempts = _attempts(text, _START_OF_ANY, fates) if "[" in text else ()
    return next((begin for begin, _, is_cut in attempts if is_cut and text[begin] == "["), None)


def json_values(text: str) -> Iterator[FoundValue]:
    """Yield the JSON objects and lists of a text, as `json_objects` does. Those within another are parts of it."""
    return _values(text, _START_OF_ANY, {})


def _values(text: str, starts: re.Pattern[str], fates: _Fates) -> Iterator[FoundValue]:
    for begin, fate, _ in _attempts(text, starts, fates):
        if fate is not None:
            yield FoundValue(fate[1], text[begin : fate[0]], begin)


def _attempts(text: str, starts: re.Pattern[str], fates: _Fates) -> Iterator[tuple[int, tuple[int, Json] | None, bool]]:
    """Yield where values may begin, their ends and values (None: broken), and whether the end of the text cuts them.

    Known fates are not read again. They never say that the end of the text cuts the value.
    """
    start = starts.search(text)
    while start:
        begin, is_cut = start.start(), False
        if begin not in fates:
            is_cut = _Reader(text, fates).read(begin)
        fate = fates[begin]
        yield begin, fate, is_cut
        start = starts.search(text, begin + 1 if fate is None else fate[0])


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


class _Reader:
    """Reads an object, and remembers the ends of all objects in it."""

    def __init__(self, text: str, fates: _Fates) -> None:
        self._text = text
        self._fates = fates
        self._open: list[_Open] = []
        self._expects = "value"

    def read(self, begin: int) -> bool:
        """Read the object that begins at a position. Return whether the end of the text cuts it."""
        position = begin
        while (token := _TOKEN.match(self._text, position)) and self._take(token):
            position = token.end()
            if not self._open:
                return False
        # A fault breaks the open values, but no complete ones.
        self._fates |= dict.fromkeys(part.begin for part in self._open)
        self._fates.setdefault(begin, None)
        return _CUT.fullmatch(self._text, position) is not None

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
