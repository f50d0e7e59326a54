"""Builds plain values from a YAML text, by the core schema of YAML 1.2, as AgentV reads it.

`yes`, `on`, `12:30` and `2025-01-15` are strings, `0o10` is 8. Duplicate keys are errors, merge keys `<<` are merged,
keys are strings. Values are built directly from libyaml's events, because parsing dominates the collection of large
files, and trees of nodes would double its time and memory.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import yaml
from yaml.events import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent

from pytest_agentv.errors import SourceError
from pytest_agentv.loading.files.yaml_scalars import (
    hide_old_breaks,
    plain_value,
    show_old_breaks,
    tagged_value,
    unread_tag,
)
from pytest_agentv.models.base import Json
from pytest_agentv.models.text import format_number

KeyPath: TypeAlias = tuple[str | int, ...]
"""The path of a value: `("evalcases", 3, "id")`."""

_Event: TypeAlias = Any
"""An event of PyYAML. The type stubs lack its anchor and value."""

_MAX_ALIASED_VALUES: Final = 1_000_000
"""A few nested aliases can stand for billions of values. No written file needs so many."""
if yaml.__with_libyaml__:
    from yaml.cyaml import CParser as _Parser  # type: ignore[attr-defined]
else:

    class _Parser(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):  # type: ignore[no-redef]
        """The pure Python parser, which is ten times slower."""

        def __init__(self, text: str) -> None:
            yaml.reader.Reader.__init__(self, text)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)


class BuiltYaml(NamedTuple):
    """The value of a document, the lines of its values, and the tags that we do not read, with their lines."""

    value: Json
    lines: dict[KeyPath, int]
    unread_tags: Sequence[tuple[int, str]]


def build_yaml(path: Path, text: str, line_depth: int, first_line: int = 1) -> BuiltYaml:
    """Return the value of a text with one document, and the lines of its values down to a depth.

    The text starts on line `first_line` of the file.
    Raises `SourceError` with the line of the first fault.
    """
    written, text = text, hide_old_breaks(text)
    try:
        builder = _Builder(path, text, line_depth, first_line, has_hidden=text != written)
        return BuiltYaml(builder.document(), builder.lines, builder.unread_tags)
    except yaml.MarkedYAMLError as error:
        from pytest_agentv.loading.files.yaml_faults import reason_of  # noqa: PLC0415 - few files are broken

        mark = error.problem_mark or error.context_mark
        if error.problem == _LIMIT and mark is not None:
            raise SourceError(path, _TOO_DEEP, mark.line + first_line) from None
        reason = reason_of(error, text, first_line)
        raise SourceError(path, f"invalid YAML: {reason}", mark.line + first_line if mark else None) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position].encode()
        if yaml.__with_libyaml__:  # which counts bytes; the pure parser counts characters
            before = before[: error.position]
        message = f"invalid YAML: the character U+{error.character:04X} is not allowed"
        raise SourceError(path, message, before.count(b"\n") + first_line) from None
    except yaml.YAMLError as error:
        raise SourceError(path, f"invalid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise SourceError(path, _TOO_DEEP, _deepest_line(text) + first_line) from None


_TOO_DEEP: Final = "the values are nested too deeply"
_LIMIT: Final = "exceeded maximum nesting depth"
"""What newer releases of libyaml say of more than 1,000 levels. Older ones have no limit."""


def _deepest_line(text: str) -> int:
    """Return the line (counted from 0) with the deepest nesting, or the line where nesting exceeds Python's limit.

    libyaml's time grows with the square of the depth, so it is not asked for more than that.
    """
    depth = deepest = line = 0
    following, limit = _Parser(text).get_event, sys.getrecursionlimit()
    with suppress(yaml.YAMLError):  # the text after the deep values may be broken too
        while deepest < limit and not isinstance(event := following(), yaml.StreamEndEvent):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > deepest and event.start_mark is not None:
                    deepest, line = depth, event.start_mark.line
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    return line


class _Builder:
    """Builds a value from the events of one document. Keeps anchored values and, down to a depth, lines."""

    def __init__(self, path: Path, text: str, line_depth: int, first_line: int, *, has_hidden: bool) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.unread_tags: list[tuple[int, str]] = []
        self._path = path
        self._line_depth = line_depth
        self._first_line = first_line
        self._next: Any = _Parser(text).get_event
        self._anchors: dict[str, Json] = {}
        self._open_anchors: set[str] = set()
        self._aliased_values = 0
        self._has_hidden = has_hidden

    def document(self) -> Json:
        self._next()  # start of the stream
        event = self._next()
        if not isinstance(event, yaml.DocumentStartEvent):
            return None
        first = self._next()
        self.lines[()] = first.start_mark.line + self._first_line
        value = self._value(first, ())
        self._next()  # end of the document
        extra = self._next()
        if isinstance(extra, yaml.DocumentStartEvent):
            self._fail(extra, "a second document starts here; expected one document in the file")
        return value

    def _value(self, event: _Event, where: KeyPath | None) -> Json:
        """Build a value. `where` is None below the depth of lines."""
        if type(event) is ScalarEvent:
            value = self._scalar(event)
            if event.anchor:
                self._anchors[event.anchor] = value
            return value
        if type(event) is AliasEvent:
            return self._aliased(event)
        if event.anchor:
            self._open_anchors.add(event.anchor)
        if where is not None and len(where) >= self._line_depth:
            where = None
        value = self._mapping(where) if type(event) is MappingStartEvent else self._sequence(where)
        value = value if event.tag is None else self._tagged(event, value)
        if event.anchor:
            self._open_anchors.discard(event.anchor)
            self._anchors[event.anchor] = value
        return value

    def _sequence(self, where: KeyPath | None) -> list[Json]:
        items: list[Json] = []
        following = self._next
        while type(event := following()) is not SequenceEndEvent:
            inner = None
            if where is not None:
                inner = (*where, len(items))
                self.lines[inner] = event.start_mark.line + self._first_line
            items.append(self._value(event, inner))
        return items

    def _mapping(self, where: KeyPath | None) -> dict[str, Json]:
        value: dict[str, Json] = {}
        merged: dict[str, Json] = {}
        key_lines: dict[str, int] = {}
        following = self._next
        while type(event := following()) is not MappingEndEvent:
            if type(event) is ScalarEvent and event.value == "<<" and event.implicit[0]:
                merged = self._merged(event) | merged
                continue
            key = self._key(event)
            line = event.start_mark.line + self._first_line
            if key in value:
                self._fail(event, f"duplicate key {key!r}, first on line {key_lines[key]}")
            key_lines[key] = line
            inner = None
            if where is not None:
                inner = (*where, key)
                self.lines[inner] = line
            value[key] = self._value(following(), inner)
        return merged | value if merged else value

    def _merged(self, event: _Event) -> dict[str, Json]:
        value = self._value(self._next(), None)
        result: dict[str, Json] = {}
        for mapping in value if isinstance(value, list) else [value]:
            if not isinstance(mapping, dict):
                self._fail(event, "a merge key `<<` takes a mapping or a list of mappings")
            result = mapping | result
        return result

    def _key(self, event: _Event) -> str:
        value = self._value(event, None)
        if value is None or isinstance(value, str):
            return value or ""
        if isinstance(value, dict | list):
            self._fail(event, "a key must be a plain value, not a mapping or a list (a text with {{ }} needs quotes)")
        return str(value).lower() if isinstance(value, bool) else format_number(value)

    def _scalar(self, event: _Event) -> Json:
        text: str = show_old_breaks(event.value) if self._has_hidden else event.value
        if event.tag is not None:
            return self._tagged(event, text)
        return plain_value(text) if event.implicit[0] else text

    def _tagged(self, event: _Event, value: Json) -> Json:
        if (tag := unread_tag(event.tag)) is not None:
            self.unread_tags.append((event.start_mark.line + self._first_line, tag))
            return value
        try:
            return tagged_value(value, event.tag)
        except ValueError as error:
            self._fail(event, str(error))

    def _aliased(self, event: _Event) -> Json:
        if event.anchor in self._open_anchors:
            self._fail(event, f"the alias *{event.anchor} refers to the value that it is part of")
        if event.anchor not in self._anchors:
            self._fail(event, f"the alias *{event.anchor} has no anchor &{event.anchor} before it")
        value = self._anchors[event.anchor]
        if isinstance(value, dict | list):
            self._aliased_values += _count(value, _MAX_ALIASED_VALUES - self._aliased_values)
            if self._aliased_values >= _MAX_ALIASED_VALUES:
                self._fail(event, "the aliases up to here stand for more than a million values")
        return value

    def _fail(self, event: _Event, message: str) -> NoReturn:
        raise SourceError(self._path, message, event.start_mark.line + self._first_line)


def _count(value: Json, limit: int) -> int:
    """Count the values within a value, up to a limit."""
    count, rest = 0, [value]
    while rest and count < limit:
        item = rest.pop()
        count += 1
        if isinstance(item, dict):
            rest.extend(item.values())
        elif isinstance(item, list):
            rest.extend(item)
    return count
