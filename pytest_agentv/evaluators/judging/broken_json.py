"""Finds where a JSON value ends that is cut or broken.

An object begins with a brace and a name or a text. A list begins with a bracket before data. If the value is not whole,
its region ends at the bracket that closes it. Brackets in texts close nothing. A bracket also closes what was left open
within it. Without such a bracket, the region ends where a code fence begins or ends, or with the text.

A quotation mark that is not escaped makes it doubtful what is in texts and what is not. A text is in doubt if no comma,
colon or bracket is beside it. After it, no bracket tells the end. The region ends with the code fence that it began in,
or with the whole text. Code without names in quotation marks, as `{a: "x" + y}`, is no such JSON.
"""

import re
from bisect import bisect
from typing import Final

from pytest_agentv.evaluators.judging.json_text import START, Reader

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
