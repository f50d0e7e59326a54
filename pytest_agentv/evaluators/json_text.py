"""Finds JSON objects in a text, in time that grows linearly with the text, and compares JSON values."""

import json
import re
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.text import strict_json, whole_number

# Finds JSON objects in a text, in time that grows linearly with the text.
#
# Python's decoder starts anew at each `{`, and each failure counts the lines before it, so a reply of 400 kB can keep
# it busy for a minute. This reader remembers the end of every object that it passes. So it reads each part of the text
# only a few times.

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


@dataclass(frozen=True, slots=True)
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


# Finds where a JSON value ends that is cut or broken.
#
# An object begins with a brace and a name or a text. A list begins with a bracket before data. If the value is not
# whole, its region ends at the bracket that closes it. Brackets in texts close nothing. A bracket also closes what was
# left open within it. Without such a bracket, the region ends where a code fence begins or ends, or with the text.
#
# A quotation mark that is not escaped makes it doubtful what is in texts and what is not. A text is in doubt if no
# comma, colon or bracket is beside it. After it, no bracket tells the end. The region ends with the code fence that it
# began in, or with the whole text. Code without names in quotation marks, as `{a: "x" + y}`, is no such JSON.

BLANK: Final = r"[ \t\n\r]*+"
OPENER: Final = re.compile(rf"""\[|\{{(?={BLANK}(?:["'“‘}}]|\w++[ \t]*:))""")
"""What may begin a list or an object. A brace before other text, as in `{name}`, begins none."""

_FENCE: Final = re.compile(r"^[ \t]*+```[ \t]*+(?P<info>[^`{}\[\]\"\n]*+)$", re.MULTILINE)
_MARK: Final = re.compile(r"""["'{}\[\]]""")
_TEXTS: Final = {
    '"': re.compile(r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"'),
    "'": re.compile(r"'[^'\\\n]*+(?:\\.[^'\\\n]*+)*'"),
}
_AFTER_TEXT: Final = re.compile(rf"{BLANK}(?:[,:}}\]|+]|\Z)")
_NAMED: Final = re.compile(rf"{BLANK}:")
_QUOTED: Final = re.compile(r"""(["'`])\{\1""")
_EMOTICON: Final = re.compile(r"""(?:^|[^"']\s)[:;]-?$""")
"""What is before the brace of an emoticon. After a name, a colon is one of JSON."""
PAIRS: Final = {"}": "{", "]": "["}


class BrokenJson:
    """Finds the regions of the broken values of a text."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._text = reader.text
        self._blocks: list[tuple[int, int]] | None = None

    def end_of(self, begin: int) -> int | None:
        """Return where the region of a broken value ends; None if the bracket begins no value."""
        if self._begins_value(begin):
            return _Region(self._text, begin, *self._limits(begin)).end()
        return None

    def _begins_value(self, begin: int) -> bool:
        """Return whether a bracket begins a value. A brace of an emoticon, or one in quotation marks, does not."""
        text = self._text
        if text[begin] == "[":
            return begin in self._reader.broken_lists
        if _EMOTICON.search(text[max(0, begin - 4) : begin]):
            return False
        return START.match(text, begin) is not None or not _QUOTED.match(text, max(0, begin - 1))

    def _limits(self, begin: int) -> tuple[int, int]:
        """Return where the region that begins at a place ends if it is not closed, and where it ends in doubt."""
        if self._blocks is None:
            self._blocks = _blocks(self._text)
        index = bisect(self._blocks, (begin, len(self._text)))
        if index and begin < self._blocks[index - 1][1]:
            return (self._blocks[index - 1][1],) * 2
        following = self._blocks[index][0] if index < len(self._blocks) else len(self._text)
        return following, len(self._text)


def _blocks(text: str) -> list[tuple[int, int]]:
    """Return where the fenced blocks of a text begin and end. A fence with a language within one opens an inner one."""
    blocks: list[tuple[int, int]] = []
    begin, depth = 0, 0
    for fence in _FENCE.finditer(text):
        if depth == 0:
            begin, depth = fence.start(), 1
        else:
            depth += 1 if fence["info"].strip() else -1
        if depth == 0:
            blocks.append((begin, fence.end()))
    if depth:
        blocks.append((begin, len(text)))
    return blocks


class _Region:
    """Reads the region of a broken value."""

    def __init__(self, text: str, begin: int, limit: int, last: int) -> None:
        self._text = text
        self._limit = limit
        self._last = last
        self._open: list[str] = []
        self._counts = dict.fromkeys("{[", 0)
        self._done = begin
        self._is_json = START.match(text, begin) is not None
        self._is_doubtful = False

    def end(self) -> int:
        """Return where it ends."""
        while mark := _MARK.search(self._text, self._done, self._limit):
            if mark[0] in _TEXTS:
                self._pass_text(mark.start())
            elif mark[0] in PAIRS:
                self._close(PAIRS[mark[0]])
                self._done = mark.end()
            else:
                self._open.append(mark[0])
                self._counts[mark[0]] += 1
                self._done = mark.end()
            if self._is_doubtful and self._is_json:
                return self._last
            if not self._open:
                return self._done
        return self._limit

    def _close(self, opener: str) -> None:
        """Close the innermost value of a kind, and what is open within it."""
        is_expected = self._open[-1] == opener
        while self._counts[opener]:
            closed = self._open.pop()
            self._counts[closed] -= 1
            if closed == opener:
                break
        self._is_doubtful |= not (is_expected or self._open)

    def _pass_text(self, begin: int) -> None:
        """Go to the end of a text, and note whether it is in doubt."""
        before = self._text[self._done : begin]
        last = before.rstrip()[-1:] or self._text[self._done - 1]
        is_first = last in "{[,:|+"  # code and types have operators: {"unit": "EUR" | "USD"}
        if self._text[begin] == "'" and not is_first:
            self._done = begin + 1  # an apostrophe
            return
        found = _TEXTS[self._text[begin]].match(self._text, begin, self._limit)
        if found is None:  # texts of JSON end on their line
            newline = self._text.find("\n", begin, self._limit)
            self._done = self._limit if newline < 0 else newline
            self._is_doubtful = True
            return
        self._done = found.end()
        self._is_json |= _NAMED.match(self._text, self._done) is not None
        # A comma may lack before a text, but not close by.
        is_first = is_first or (before[-1:].isspace() and (last in "}]" or last.isdecimal()))
        self._is_doubtful |= not is_first or _AFTER_TEXT.match(self._text, self._done) is None


# Finds the JSON values of a text that are no parts of a value that is cut or broken.
#
# A candidate is an object or a list that is whole and in no other one. It is only a part if one of these holds:
#
# 1. It is in the region of a broken value (see `broken_json.py`).
# 2. It is in a run that is the rest of a broken value. A run is values, texts and numbers with only commas and colons
#    between them. It is such a rest if a broken value begins it, or if it closes more than it opens and there is more
# in
#    it than one value. A comma or a name before a value belongs to its run: in `"a": {"b": 1}}`, the object is a part.
# 3. Its own end is doubtful: what follows it, up to a blank line, closes something after a quotation mark, as in
#    `{"a": "}" is", "b": 1}`, or is such a rest. The object ended too early, in a text with a quotation mark. Nothing
#    after it counts either: otherwise a later value would stand for it. A value alone in a code fence has no such
# doubt.
#
# So a value counts amid prose, code, LaTeX and other values. It does not count if JSON goes on around it.

_FOLLOWER: Final = re.compile(
    rf"{BLANK}(?:(?P<closer>[}}\]])|(?P<mark>,|(?<=\"):){BLANK}(?:(?P<opener>[{{\[])|{STRING}|(?:{SCALAR})(?![\w.])))"
)
_END_OF_JSON: Final = re.compile(r"""(?:["'}\]\d[]|true|false|null)$""")
_END_OF_NAME: Final = re.compile(r"""["']$""")
_BRACE: Final = re.compile(r"\{")
_BLANK_LINE: Final = re.compile(r"\n[ \t]*\n")
_FENCE_BEFORE: Final = re.compile(r"(?:^|\n)[ \t]*```[^`\n]*\n\s*$")
_FENCE_AFTER: Final = re.compile(r"\s*\n[ \t]*```[ \t]*(?:\n|$)")
_LONGEST_FENCE: Final = 100
"""Characters of the line of a code fence."""
_BRACKET: Final = re.compile(r"""(["'`])[{}\[\]]\1|(?P<opener>[{\[])|(?P<closer>[}\]])""")
"""A bracket. One in quotation marks neither opens nor closes."""


def outer_objects(text: str) -> Iterator[FoundObject]:
    """Yield the JSON objects of a text that are no parts of a value that is cut or broken. Those in lists count."""
    outer = _OuterJson(text)
    for found in outer.values():
        if isinstance(found.value, dict):
            yield FoundObject(*found)
        else:
            yield from outer.objects_in(found)


def outer_values(text: str) -> Iterator[FoundValue]:
    """Yield the JSON objects and lists of a text, as `outer_objects` does."""
    return _OuterJson(text).values()


class _Run:
    """Values, texts and numbers with only commas and colons between them."""

    def __init__(self, begin: int, *, is_tied: bool) -> None:
        self.begin = self.end = begin
        self.found: list[FoundValue] = []
        self.is_broken = self.closes = self.has_more = self.has_names = False
        self.is_tied = is_tied
        """Whether a comma or a name is before it."""

    @property
    def is_rest(self) -> bool:
        """Whether it is the rest of a broken value, and so begins within that."""
        return (self.is_tied and (self.closes or self.has_names)) or (self.closes and self.has_more)

    @property
    def sound(self) -> Sequence[FoundValue]:
        """The values that are no parts, as far as the run itself tells."""
        return () if self.is_broken or self.is_rest else self.found


class _OuterJson:
    def __init__(self, text: str) -> None:
        self._text = text
        self._reader = Reader(text)
        self._broken = BrokenJson(self._reader)

    def values(self) -> Iterator[FoundValue]:
        """Yield each candidate that is no part."""
        last: _Run | None = None
        for run in self._runs():
            if last:
                if self._is_in_doubt(last, run):
                    return
                yield from last.sound
            last = run
        if last and not self._is_in_doubt(last, None):
            yield from last.sound

    def objects_in(self, found: FoundValue) -> Iterator[FoundObject]:
        """Yield the objects of a list that are in no other object."""
        done, end = found.begin, found.begin + len(found.text)
        for brace in _BRACE.finditer(self._text, found.begin, end):
            if brace.start() >= done and (inner := self._reader.known(brace.start())):
                done = inner.begin + len(inner.text)
                yield FoundObject(*inner)

    def _is_in_doubt(self, run: _Run, following: _Run | None) -> bool:
        """Return whether a run may end too early: the text behind it, or the following run, goes on with its end."""
        if not run.sound or self._is_fenced(run):
            return False
        blank = _BLANK_LINE.search(self._text, run.end, following.begin if following else len(self._text))
        if following is None or blank is not None:
            return self._is_torn(run.end, blank.start() if blank else len(self._text))
        is_rest = following.is_rest or (following.is_broken and following.begin == run.end)
        return is_rest or self._is_torn(run.end, following.begin)

    def _is_fenced(self, run: _Run) -> bool:
        """Return whether a run is alone in a code fence that is closed."""
        before = self._text[max(0, run.begin - _LONGEST_FENCE) : run.begin]
        return _FENCE_BEFORE.search(before) is not None and _FENCE_AFTER.match(self._text, run.end) is not None

    def _runs(self) -> Iterator[_Run]:
        opener = OPENER.search(self._text)
        while opener:
            run = self._run(opener.start())
            if run:
                yield run
            opener = OPENER.search(self._text, run.end if run else opener.end())

    def _run(self, begin: int) -> _Run | None:
        run = _Run(begin, is_tied=self._is_tied(begin))
        if not self._take(run, begin):
            return None
        while follower := _FOLLOWER.match(self._text, run.end):
            if follower["closer"]:
                # A list in a list that lacks its beginning. A brace may be one of code.
                run.has_more |= follower["closer"] == "]" == self._text[run.end - 1]
                run.closes, run.end = True, follower.end()
                continue
            if not follower["opener"]:
                run.end = follower.end()
            elif not self._take(run, follower.start("opener")):
                break
            run.has_more = True
            run.has_names |= follower["mark"] == ":"
        return run

    def _take(self, run: _Run, begin: int) -> bool:
        """Add the value that begins at a bracket to a run. Return whether one begins there."""
        if not OPENER.match(self._text, begin):
            return False
        found = self._reader.read(begin)
        if found:
            run.found.append(found)
            run.end = begin + len(found.text)
            return True
        end = self._broken.end_of(begin)
        if end is not None:
            run.is_broken, run.end = True, end
        return end is not None

    def _is_tied(self, begin: int) -> bool:
        """Return whether a comma or a colon after JSON is before a place."""
        mark = self._before(begin)
        if mark < 0 or self._text[mark] not in ",:":
            return False
        ends = _END_OF_JSON if self._text[mark] == "," else _END_OF_NAME
        return self._ends_before(mark, ends)

    def _is_torn(self, begin: int, end: int) -> bool:
        """Return whether a text closes more than it opens, after JSON and a quotation mark."""
        quote = self._text.find('"', begin, end)
        depths = dict.fromkeys("{[", 0)
        for bracket in _BRACKET.finditer(self._text, begin, end) if quote >= 0 else ():
            if bracket["opener"]:
                depths[bracket["opener"]] += 1
            elif bracket["closer"]:
                opener = PAIRS[bracket["closer"]]
                if depths[opener]:
                    depths[opener] -= 1
                elif quote < bracket.start() and self._ends_before(bracket.start(), _END_OF_JSON):
                    return True
        return False

    def _ends_before(self, place: int, ends: re.Pattern[str]) -> bool:
        last = self._before(place)
        return last >= 0 and ends.search(self._text, max(0, last - 4), last + 1) is not None

    def _before(self, place: int) -> int:
        """Return where the last character before a place is that is no blank; -1 if there is none."""
        place -= 1
        while place >= 0 and self._text[place] in " \t\n\r":
            place -= 1
        return place


# Equality of JSON values: types count (True is not 1), the order of keys does not, 1 equals 1.0.


def json_equal(left: Json, right: Json) -> bool:
    """Return whether two plain JSON values are equal at every depth. Python's `==` takes True for 1."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(json_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(json_equal, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)
