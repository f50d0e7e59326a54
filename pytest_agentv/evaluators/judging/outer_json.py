"""Finds the JSON values of a text that are no parts of a value that is cut or broken.

A candidate is an object or a list that is whole and in no other one. It is only a part if one of these holds:

1. It is in the region of a broken value (see `broken_json.py`).
2. It is in a run that is the rest of a broken value. A run is values, texts and numbers with only commas and colons
   between them. It is such a rest if a broken value begins it, or if it closes more than it opens and there is more in
   it than one value. A comma or a name before a value belongs to its run: in `"a": {"b": 1}}`, the object is a part.
3. Its own end is doubtful: what follows it, up to a blank line, closes something after a quotation mark, as in
   `{"a": "}" is", "b": 1}`, or is such a rest. The object ended too early, in a text with a quotation mark. Nothing
   after it counts either: otherwise a later value would stand for it. A value alone in a code fence has no such doubt.

So a value counts amid prose, code, LaTeX and other values. It does not count if JSON goes on around it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_agentv.evaluators.judging.broken_json import BLANK, OPENER, PAIRS, BrokenJson
from pytest_agentv.evaluators.judging.json_text import SCALAR, STRING, FoundObject, FoundValue, Reader

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
