r"""Translates regular expressions of JavaScript, the language of JSON Schema, into that of the package `regex`.

A group of JavaScript forgets its text when a repetition around it begins again, and `\1` is empty while there is no
text. The package does neither. So an empty group of the same name stands at each place where a text is forgotten.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pytest_agentv.evaluators.comparing.ecma_reader import EcmaReader, Unsupported
from pytest_agentv.evaluators.comparing.ecma_sets import DOT, EDGE, NO_EDGE, literal
from pytest_agentv.models.records import record

_FOREIGN: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|(?P<group>\(\?(?![:=!<]))", re.DOTALL)
_QUANTIFIER: Final = re.compile(r"(?:[*+?]|\{(?P<least>\d+)(?:,(?P<most>\d*))?\})\??", re.ASCII)
MOST: Final = 2**32 - 2
"""The highest count of a repetition. It is more than the characters of any answer."""
_GROUP: Final = re.compile(r"\((?:\?(?P<sign>[:=!]|<[=!])|\?<(?P<name>[^>]+)>|(?!\?))")


@record
class _Part:
    text: str
    may_be_empty: bool = False
    groups: frozenset[int] = frozenset()
    """The groups within that are referred to."""
    kind: str = ""
    """What the part is if it cannot be repeated."""


def is_foreign(pattern: str) -> bool:
    """Whether a pattern has a group of a kind that JavaScript lacks, such as `(?i)` or `(?P<name>…)`."""
    return any(found["group"] for found in _FOREIGN.finditer(pattern))


def in_python(pattern: str) -> str:
    """Return a pattern for the package `regex`. Raises `PatternFault` and `Unsupported`."""
    reading = _Reading(pattern, frozenset(), {})
    part = reading.whole()
    wanted = reading.referenced()
    if not wanted:
        return part.text
    part = _Reading(pattern, wanted, reading.names).whole()
    return f"{_forgetting(wanted)}(?:{part.text})"


def _forgetting(groups: Iterable[int]) -> str:
    return "".join(f"(?P<g{number}>)" for number in sorted(groups))


def _joined(parts: list[_Part], separator: str, empty: Callable[[Iterable[bool]], bool]) -> _Part:
    return _Part(
        separator.join(part.text for part in parts),
        empty(part.may_be_empty for part in parts),
        frozenset().union(*(part.groups for part in parts)),
    )


class _Reading(EcmaReader):
    """One of two readings of a pattern. The second knows the groups whose text is wanted, and the names."""

    def __init__(self, pattern: str, wanted: frozenset[int], names: Mapping[str, int]) -> None:
        super().__init__(pattern)
        self._wanted = wanted
        self._known = names
        self.names: dict[str, int] = {}
        self._count = 0
        self._references: dict[int | str, int] = {}
        """The place of the first reference to a group."""
        self._open: list[int] = []
        self._goes_back = False
        """Within a lookbehind, JavaScript reads from the right to the left."""

    def whole(self) -> _Part:
        part = self._alternatives()
        if self.at < len(self.pattern):
            self.fail("')' has no '('")
        return part

    def referenced(self) -> frozenset[int]:
        """Return the groups that are referred to. Raises `PatternFault` if one does not exist."""
        numbers = {each: self.names.get(each, 0) if isinstance(each, str) else each for each in self._references}
        for group, number in numbers.items():
            if not 0 < number <= self._count:
                self.fail(f"there is no group {group!r}", self._references[group])
        return frozenset(numbers.values())

    def _alternatives(self) -> _Part:
        found = [self._sequence()]
        while self.sees("|"):
            self.at += 1
            found.append(self._sequence())
        return _joined(found, "|", any)

    def _sequence(self) -> _Part:
        found = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            found.append(self._repeated(self._term()))
        return _joined(found, "", all)

    def _repeated(self, part: _Part) -> _Part:
        found = _QUANTIFIER.match(self.pattern, self.at)
        if found is None:
            return part
        if part.kind == "a lookahead":
            self.allow(f"repeating {part.kind}")
        elif part.kind:
            self.fail(f"{part.kind} cannot be repeated")
        if found["most"] and int(found["most"]) < int(found["least"]):
            self.fail(f"the numbers of {found[0]!r} are out of order")
        if part.groups and part.may_be_empty:
            # JavaScript does not count an empty repetition, and forgets what its groups found.
            raise Unsupported(
                f"a part with a group that is referred to is repeated, and may be empty, at position {self.at}"
            )
        self.at = found.end()
        is_optional = found[0][0] in "*?" or (found["least"] is not None and not int(found["least"]))
        return _Part(self._forgetful(part) + self._quantifier(found), part.may_be_empty or is_optional, part.groups)

    def _quantifier(self, found: re.Match[str]) -> str:
        """Return a quantifier, with a limit if the text of a group counts.

        In a repetition without limit, the package does not come back to a place, even if a group has another text then.
        """
        if not self._wanted or found[0][0] == "?" or found["most"] or ("," not in found[0] and found["least"]):
            return found[0]
        least = found["least"] or ("1" if found[0][0] == "+" else "0")
        return f"{{{least},{MOST}}}{'?' if found[0].endswith('?') else ''}"

    def _forgetful(self, part: _Part) -> str:
        """Return a part that can be repeated, and forgets at its start what its groups found."""
        if not part.groups:
            return f"(?:{part.text})" if part.may_be_empty else part.text
        texts = [_forgetting(part.groups), part.text]
        return f"(?:{''.join(reversed(texts) if self._goes_back else texts)})"

    def _term(self) -> _Part:
        char = self.pattern[self.at]
        if char == "(":
            return self._group()
        if char == "\\":
            return self._escaped()
        if _QUANTIFIER.match(self.pattern, self.at):
            self.fail("there is nothing to repeat")
        if char == "[":
            return _Part(self.class_())
        if char in "{}]":
            self.allow(repr(char))
        self.at += 1
        if char in "^$":
            return _Part(r"\A" if char == "^" else r"\Z", may_be_empty=True, kind=repr(char))
        return _Part(DOT if char == "." else literal(ord(char)))

    def _escaped(self) -> _Part:
        found = self.escape()
        inner = self.set_of(found)
        if inner is not None:
            part = _Part(f"[{inner}]")
        elif found["number"] or found["name"] is not None:
            part = self._reference(found["name"] if found["number"] is None else int(found["number"]))
        elif found["other"] in ("b", "B"):
            part = _Part(EDGE if found["other"] == "b" else NO_EDGE, may_be_empty=True, kind=repr(found[0]))
        else:
            part = _Part(literal(self.code_of(found)))
        self.at = found.end()
        return part

    def _reference(self, group: int | str) -> _Part:
        """Refer to a group. Within the group itself there is no text yet."""
        self._references.setdefault(group, self.at)
        number = self._known.get(group, 0) if isinstance(group, str) else group
        is_known = number in self._wanted and number not in self._open
        return _Part(f"(?P=g{number})" if is_known else "(?:)", may_be_empty=True)

    def _group(self) -> _Part:
        start, found = self.at, _GROUP.match(self.pattern, self.at)
        if found is None:
            self.fail("no such group in JavaScript")
        sign, was_back = found["sign"] or "", self._goes_back
        number = 0 if sign else self._begin(found["name"])
        if sign not in ("", ":"):
            self._goes_back = sign.startswith("<")
        self.at = found.end()
        part = self._alternatives()
        if not self.sees(")"):
            self.fail("')' is missing for the group", start)
        self.at += 1
        self._goes_back = was_back
        if sign not in ("", ":"):
            return _Part(f"{found[0]}{part.text})", True, part.groups, f"a look{'behind' if '<' in sign else 'ahead'}")
        if number:
            self._open.remove(number)
        if number not in self._wanted:
            return _Part(f"(?:{part.text})", part.may_be_empty, part.groups)
        return _Part(f"(?P<g{number}>{part.text})", part.may_be_empty, part.groups | {number})

    def _begin(self, name: str | None) -> int:
        """Count a group that keeps its text, and return its number."""
        self._count += 1
        self._open.append(self._count)
        if name is not None:
            if name in self.names or not name.replace("$", "_").isidentifier():
                self.fail(f"{name!r} is {'the name of two groups' if name in self.names else 'no name of a group'}")
            self.names[name] = self._count
        return self._count
