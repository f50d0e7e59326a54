"""Reads YAML and JSONL files to plain values, by the core schema of YAML 1.2, and finds the line of each value."""

import gc
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

import yaml
from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from pytest_agentv.errors import NO_REGULAR_FILE, SourceError
from pytest_agentv.files.problems import Problem, describe_value
from pytest_agentv.model.base import Json, JsonObject, format_number, refuse_constant

KeyPath: TypeAlias = tuple[str | int, ...]
"""The path of a value: `("cases", 3, "id")`."""

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
    has_lines = True
    """Whether a message can name a line. Parquet files and functions have rows without lines."""

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
        self.tells_case_by_line = path.suffix == ".jsonl"
        """Whether each case has its own line, so that messages need no case number."""
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


def source_of_line(path: Path, value: Json, line: int) -> Source:
    """Return a source of values that all stand on one line."""
    source = Source(path, value, "", {(): line})
    source.tells_case_by_line = True
    return source


class JsonlSource(Source):
    """The values of a JSONL file, one on each line that is not blank."""

    def __init__(self, path: Path, values: Sequence[Json], text: str, numbers: Sequence[int]) -> None:
        super().__init__(path, values, text, {})
        self._numbers = numbers  # of the lines; a list takes less time and memory than a mapping

    def line_of(self, key_path: KeyPath = ()) -> int:
        index = key_path[0] if key_path else None
        return self._numbers[index] if isinstance(index, int) and index < len(self._numbers) else 1


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
        self.tells_case_by_line = base.tells_case_by_line
        self._base = base
        self._where = where
        self._origins = origins

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


@lru_cache(maxsize=2)
def _deep_lines(source: Source) -> dict[KeyPath, int]:
    return build_yaml(source.path, source.text, _DEEP)[1]


def read_yaml(path: Path) -> Source:
    """Read a file of one YAML document. Raises `SourceError` with the line of the first fault."""
    text = _join_surrogates(read_text(path))
    was_enabled = gc.isenabled()
    gc.disable()  # it would scan millions of new values, find nothing and double the parse time
    try:
        value, lines, unread_tags = build_yaml(path, text, _SHALLOW)
    finally:
        if was_enabled:
            gc.enable()
    return Source(path, value, text, lines, unread_tags)


def _join_surrogates(text: str) -> str:
    """Join the two escapes of JSON for a character above U+FFFF. AgentV reads them, but YAML parsers do not."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _SURROGATES.sub(lambda pair: pair[1] + json.loads(f'"{pair[2]}"'), text)


def read_jsonl(path: Path) -> Source:
    """Read a file with one JSON object per line into a list. Raises `SourceError` with the line of the first fault."""
    values: list[Json] = []
    numbers: list[int] = []
    text = read_text(path)
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            numbers.append(number)
            values.append(parse_json_object(path, line, number))
    return JsonlSource(path, values, text, numbers)


def parse_json_object(path: Path, line: str, number: int) -> Json:
    """Return the object of a line of a JSONL file. Raises `SourceError`."""
    try:
        value = STRICT_JSON.decode(line)
    except ValueError as error:
        reason = f"{error.msg} (column {error.colno})" if isinstance(error, json.JSONDecodeError) else error
        raise SourceError(path, f"invalid JSON: {reason}", number) from None
    except RecursionError:
        raise SourceError(path, "the values are nested too deeply", number) from None
    if not isinstance(value, dict):
        raise SourceError(path, f"expected a JSON object, got {line.strip()[:40]}", number)
    return value


def _unlike_keys(pairs: list[tuple[str, Json]]) -> JsonObject:
    """Return a mapping of pairs. Raises `ValueError` for a duplicate key, because one value would be lost."""
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} is there twice")
    return value


STRICT_JSON: Final = json.JSONDecoder(parse_constant=refuse_constant, object_pairs_hook=_unlike_keys)
"""Decodes users' JSON. Raises `ValueError` for `NaN` and for duplicate keys in a mapping."""


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
        raise SourceError(
            path, f"is not UTF-8: byte 0x{error.object[error.start]:02x} (save it as UTF-8)", line
        ) from None


@lru_cache
def folder_of(path: Path) -> Path:
    """Return the folder of a file. Cached, because making and hashing a path is slow."""
    return path.parent


# Values are built directly from libyaml's events, because parsing dominates the collection of large files, and trees of
# nodes would double its time and memory.

_Event: TypeAlias = Any
"""An event of PyYAML. The type stubs lack its anchor and value."""

_Parser: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Parses with libyaml; without it, in Python, which is ten times slower."""

_TOO_DEEP: Final = "the values are nested too deeply"
_LIMIT: Final = "exceeded maximum nesting depth"
"""What newer releases of libyaml say of more than 1,000 levels. Older ones have no limit."""


_DEEPEST: Final = 100
"""In a beginning of a file: libyaml's time grows with the square of the depth."""


def top_values(text: str, lists: Collection[str]) -> Iterator[tuple[str, int, Json]]:
    """Yield the keys at top level of a beginning of YAML, with their lines and values; scalars as texts.

    Of the lists under some keys, only the first entry is read. Ends where the text is no YAML, or is cut off: the last
    value may lack its end.
    """
    following = _Parser(_join_surrogates(text)).get_event
    with suppress(yaml.YAMLError, RecursionError):
        following()
        if not isinstance(following(), yaml.DocumentStartEvent) or not isinstance(following(), MappingStartEvent):
            return
        while isinstance(key := following(), ScalarEvent):
            line = key.start_mark.line + 1  # type: ignore[union-attr]
            values: list[Json] = []
            event: _Event = following()
            is_list = key.value in lists and isinstance(event, SequenceStartEvent)
            first = following() if is_list else event
            try:
                if not isinstance(first, SequenceEndEvent):
                    _read_head(values, following, first, 1)
            finally:
                yield key.value, line, values if is_list else next(iter(values), None)
            depth = int(is_list and not isinstance(first, SequenceEndEvent))
            while depth:  # the other entries
                rest = following()
                depth += isinstance(rest, yaml.CollectionStartEvent) - isinstance(rest, yaml.CollectionEndEvent)


def _read_head(into: list[Json], following: Callable[[], _Event], event: _Event, depth: int) -> None:
    """Add the value of an event to a list. A mapping or a list is added before it is read, because it may be cut."""
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(event, ScalarEvent):
        into.append(event.value)
    elif isinstance(event, SequenceStartEvent):
        items: list[Json] = []
        into.append(items)
        while not isinstance(item := following(), SequenceEndEvent):
            _read_head(items, following, item, depth + 1)
    elif isinstance(event, MappingStartEvent):
        mapping: dict[str, Json] = {}
        into.append(mapping)
        while not isinstance(key := following(), MappingEndEvent):
            pair: list[Json] = []
            _read_head(pair, following, key, depth + 1)
            mapping[str(pair[0])] = None  # perhaps its value is cut
            _read_head(pair, following, following(), depth + 1)
            mapping[str(pair[0])] = pair[1]
    else:  # an alias
        into.append(None)


def build_yaml(
    path: Path, text: str, line_depth: int, first_line: int = 1
) -> tuple[Json, dict[KeyPath, int], Sequence[tuple[int, str]]]:
    """Return the value of a text with one document, the lines of its values, and the tags that we do not read.

    Duplicate keys are errors, merge keys `<<` are merged, and keys are strings.

    The text starts on line `first_line` of the file. Lines are known down to a depth.
    Raises `SourceError` with the line of the first fault.
    """
    hidden = text if text.isascii() else text.translate(_HIDING)
    builder = _Builder(path, hidden, line_depth, first_line, has_hidden=hidden != text)
    try:
        return builder.document(), builder.lines, builder.unread_tags
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + first_line if mark else None
        if error.problem == _LIMIT:
            raise SourceError(path, _TOO_DEEP, line) from None
        raise SourceError(path, f"invalid YAML: {reason_of(error, text, first_line)}", line) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position].encode()
        if yaml.__with_libyaml__:  # which counts bytes; the pure parser counts characters
            before = before[: error.position]
        message = f"invalid YAML: the character U+{error.character:04X} is not allowed"
        raise SourceError(path, message, before.count(b"\n") + first_line) from None
    except yaml.YAMLError as error:
        raise SourceError(path, f"invalid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise SourceError(path, _TOO_DEEP, max(builder.lines.values())) from None


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
            text = event.value.translate(_SHOWING) if self._has_hidden else event.value
            if event.tag is not None:
                value = self._tagged(event, text)
            else:
                value = plain_value(text) if event.implicit[0] else text
            if event.anchor:
                self._anchors[event.anchor] = value
            return value
        if type(event) is AliasEvent:
            if event.anchor not in self._anchors:
                self._fail(event, f"the alias *{event.anchor} has no anchor &{event.anchor} before it")
            return self._anchors[event.anchor]
        if where is not None and len(where) >= self._line_depth:
            where = None
        value = self._mapping(where) if type(event) is MappingStartEvent else self._sequence(where)
        value = value if event.tag is None else self._tagged(event, value)
        if event.anchor:
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

    def _tagged(self, event: _Event, written: Json) -> Json:
        """Return a value with a tag: a text by the type of the tag. Notes tags that we do not read."""
        tag = event.tag
        if tag == _NO_TAG or (tag in _TEXT_TAGS and isinstance(written, str)):
            return written
        kind = tag.removeprefix(_TAG_PREFIX)
        if kind == tag or kind not in _TAGGED_TYPES:
            self.unread_tags.append((event.start_mark.line + self._first_line, tag if kind == tag else f"!!{kind}"))
            return written
        expected = _TAGGED_TYPES[kind]
        value = plain_value(written) if isinstance(written, str) else written
        if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
            self._fail(event, f"{describe_value(written)} is no !!{kind}")
        return value

    def _fail(self, event: _Event, message: str) -> NoReturn:
        raise SourceError(self._path, message, event.start_mark.line + self._first_line)


_HINTS: Final = {
    "did not find expected '-' indicator": "is this line indented as its neighbours are?",
    "did not find expected key": "is this line indented as its neighbours are, and a quote not closed too early?",
    "mapping values are not allowed in this context": "a text with a colon needs quotes; else look at the indentation",
    "found character that cannot start any token": "a text that begins with this character needs quotes",
    "found unknown escape character": "double quotes read backslashes: use single quotes",
}
"""The usual mistake behind a message of the parser."""


def reason_of(error: yaml.MarkedYAMLError, text: str, first_line: int) -> str:
    """Return the parser's message, with the start line of an unfinished value, or an explanation for tabs."""
    start, end = error.context_mark, error.problem_mark
    since = ""
    if start is not None and end is not None and start.line != end.line:
        since = f" that begins on line {start.line + first_line}"
    parts = (f"{error.context}{since}" if error.context else "", error.problem)
    is_tab = end is not None and text[end.index : end.index + 1] == "\t"
    hint = "a tab cannot indent YAML: use spaces" if is_tab else _HINTS.get(error.problem or "")
    return ", ".join(filter(None, parts)) + (f" ({hint})" if hint else "")


# Scalars, in the core schema of YAML 1.2, as AgentV reads them: `yes`, `on`, `12:30` and `2025-01-15` are texts, and
# `0o10` is 8.

_CONSTANTS: Final[dict[str, Json]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_NUMBER: Final = re.compile(
    r"(?P<int>[-+]?[0-9]+)|0o(?P<oct>[0-7]+)|0x(?P<hex>[0-9a-fA-F]+)"
    r"|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?",
    re.ASCII,
)
_FLOAT_BITS: Final = 1024
_FIRST_OF_NUMBER: Final = frozenset("+-.0123456789")
_HIDING: Final = str.maketrans("\x85\u2028\u2029", "\U0010fffb\U0010fffc\U0010fffd")
"""Line breaks in YAML 1.1, which the parsers read, but not in 1.2; each with a character that no file holds."""
_SHOWING: Final = {new: old for old, new in _HIDING.items()}
_NO_TAG: Final = "!"
"""What YAML puts before a value that is to be read as if it had quotes."""
_TAG_PREFIX: Final = "tag:yaml.org,2002:"
_TAGGED_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "null": (type(None),),
    "map": (dict,),
    "seq": (list,),
}
_TEXT_TAGS: Final = frozenset((f"{_TAG_PREFIX}str", f"{_TAG_PREFIX}timestamp"))


def plain_value(text: str) -> Json:
    """Return the value of an unquoted scalar."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] in _FIRST_OF_NUMBER and (match := _NUMBER.fullmatch(text)):
        if match["int"]:
            return _whole_number(text, 10)
        if match["oct"]:
            return _whole_number(match["oct"], 8)
        return _whole_number(match["hex"], 16) if match["hex"] else float(text)
    return text


def _whole_number(digits: str, base: int) -> int | float:
    """Return a whole number. A number too large for a float becomes infinite, as in AgentV."""
    try:
        number = int(digits, base)
    except ValueError:  # more digits than Python converts
        return float(digits)
    return number if number.bit_length() < _FLOAT_BITS else float("-inf" if number < 0 else "inf")


# Writes records as readable YAML documents: texts with several lines become block literals.

_UNFIT_FOR_BLOCKS: Final = re.compile(
    "[^\n\t -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010fffe]"
)
"""Characters that need an escape: unprintable ones, and line breaks that YAML readers turn into a newline."""


class _Dumper(yaml.SafeDumper):
    """A dumper that uses block literals where YAML allows them, and indents lists below their key."""

    def analyze_scalar(self, scalar: str) -> Any:
        analysis: Any = super().analyze_scalar(scalar)
        # PyYAML refuses blocks for texts with tabs or trailing spaces, which are common in answers.
        if analysis.multiline and not _UNFIT_FOR_BLOCKS.search(scalar):
            analysis.allow_block = True
        return analysis

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - PyYAML's signature
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if _UNFIT_FOR_BLOCKS.search(text) or text.startswith("\t"):  # YAML reads a block's first tab as indentation
        style = '"'
    elif "\n" in text:
        style = "|"
    elif not isinstance(plain_value(text), str):
        style = '"'  # PyYAML follows YAML 1.1, where `1e3` needs no quotes; in 1.2 it is a number
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def yaml_document(record: JsonObject) -> str:
    """Return a record of plain JSON data as one document that starts with `---` and ends with a newline."""
    return yaml.dump(
        record,
        Dumper=_Dumper,
        explicit_start=True,
        allow_unicode=True,
        sort_keys=False,
        default_flow_style=False,
        width=float("inf"),
    )
