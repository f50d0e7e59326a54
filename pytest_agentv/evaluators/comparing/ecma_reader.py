r"""Reads the characters, escapes and classes of a regular expression of JavaScript.

It is read with the flag `u`, as JSON Schema says. What is an error then, and has a meaning without the flag, is read
without it: many schemas have `\-` outside a class. Letters are not: only without the flag is `\Z` the letter Z, and
hardly any author means it.
"""

import re
from typing import Final, NoReturn

from pytest_agentv.evaluators.comparing.ecma_sets import ANY, NONE, SETS, literal, property_set

_ESCAPE: Final = re.compile(
    r"""\\(?:
    u(?P<high>[Dd][89ABab][\dA-Fa-f]{2})\\u(?P<low>[Dd][C-Fc-f][\dA-Fa-f]{2}) | u\{(?P<braced>[\dA-Fa-f]+)\}
    | u(?P<unit>[\dA-Fa-f]{4}) | x(?P<byte>[\dA-Fa-f]{2}) | c(?P<control>[A-Za-z]) | (?P<octal>0[0-7]{0,2})
    | (?P<blank>[fnrtv]) | (?P<set>[dDsSwW]) | (?P<letter>[pP])\{(?P<property>[^}]*)\}
    | (?P<number>[1-9]\d*) | k<(?P<name>[^>]*)>
    | (?P<other>.) )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_BLANKS: Final = dict(zip("fnrtv", "\f\n\r\t\v", strict=True))
_SYNTAX: Final = "^$\\.*+?()[]{}|/"
_MEANT: Final = {"A": "^", "Z": "$", "z": "$"}
_HIGHEST: Final = 0x10FFFF


class PatternFault(ValueError):
    """Why a pattern is none of JavaScript."""


class Unsupported(ValueError):
    """Why a pattern of JavaScript cannot be judged."""


class EcmaReader:
    """A place in a pattern, and what was read so far."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self._with_u = ""
        """The first part that needs the flag `u`."""
        self._without_u = ""
        """The first part that is an error with the flag `u`, and its place."""

    def sees(self, text: str) -> bool:
        """Whether a text comes next."""
        return self.pattern.startswith(text, self.at)

    def fail(self, fault: str, at: int | None = None) -> NoReturn:
        """Raise `PatternFault` with a place, which is the present one by default."""
        raise PatternFault(f"{fault} at position {self.at if at is None else at}")

    def allow(self, part: str) -> None:
        """Note a part that is an error with the flag `u`. Raises `PatternFault` if another part needs the flag."""
        self._without_u = self._without_u or f"{part} at position {self.at}"
        self._check_flag()

    def _need_u(self, part: str) -> None:
        self._with_u = self._with_u or part
        self._check_flag()

    def _check_flag(self) -> None:
        if self._with_u and self._without_u:
            raise PatternFault(f"{self._with_u} needs the flag u, with which {self._without_u} is an error")

    def escape(self) -> re.Match[str]:
        """Read an escape, whose kind is the group that is found."""
        found = _ESCAPE.match(self.pattern, self.at)
        if found is None:
            self.fail("a backslash at the end")
        if found["braced"] or found["letter"]:
            self._need_u(repr(found[0]))
        return found

    def set_of(self, found: re.Match[str]) -> str | None:
        r"""Return the inner part of the class that an escape such as `\d` or `\p{L}` stands for; None for others."""
        if found["set"]:
            return SETS[found["set"]]
        if found["letter"] is None:
            return None
        inner = property_set(found["letter"], found["property"])
        if inner is None:
            self.fail(f"unknown property {found['property']!r}")
        return inner

    def code_of(self, found: re.Match[str], plain: str = _SYNTAX) -> int:
        """Return the character that an escape stands for. `plain` ones stand for themselves."""
        if found["other"] is not None:
            return self._itself(found["other"], plain)
        if found["high"]:
            return 0x10000 + (int(found["high"], 16) - 0xD800) * 0x400 + int(found["low"], 16) - 0xDC00
        if digits := found["braced"] or found["unit"] or found["byte"]:
            if int(digits, 16) > _HIGHEST:
                self.fail(f"{found[0]!r} is no character")
            return int(digits, 16)
        if found["control"]:
            return ord(found["control"]) % 32
        if found["blank"]:
            return ord(_BLANKS[found["blank"]])
        if found["octal"] is None:
            self.fail(f"{found[0]!r} is no character")
        if found["octal"] != "0" or self.pattern[found.end() : found.end() + 1] in ("8", "9"):
            self.allow(repr(found[0]))
        return int(found["octal"], 8)

    def _itself(self, char: str, plain: str) -> int:
        if char not in plain:
            escape = f"\\{char}"
            if char.isascii() and char.isalnum():
                hint = f" (did you mean {_MEANT[char]!r}?)" if char in _MEANT else ""
                self.fail(f"{escape!r} is no escape{hint}")
            self.allow(repr(escape))
        return ord(char)

    def class_(self) -> str:
        """Read a class such as `[^a-z]`, and return it for the package `regex`."""
        start = self.at
        self.at += 1
        sign = "^" if self.sees("^") else ""
        self.at += len(sign)
        inner = ""
        while not self.sees("]"):
            inner += self._range(start)
        self.at += 1
        if not inner:
            return ANY if sign else NONE
        return f"[{sign}{inner}]"

    def _range(self, start: int) -> str:
        """Read one character or set, or the two ends of a range."""
        low = self._atom(start)
        if not self.sees("-") or self.sees("-]"):
            return low if isinstance(low, str) else literal(low)
        place, self.at = self.at, self.at + 1
        high = self._atom(start)
        if isinstance(low, str) or isinstance(high, str):
            self.allow("a range with a set")
            return "".join(each if isinstance(each, str) else literal(each) for each in (low, ord("-"), high))
        if low > high:
            self.fail("the ends of a range are out of order", place)
        return f"{literal(low)}-{literal(high)}"

    def _atom(self, start: int) -> int | str:
        """Read one character, or a set, of the class that starts at a place."""
        if self.at >= len(self.pattern):
            self.fail("']' is missing for the class", start)
        if not self.sees("\\"):
            self.at += 1
            return ord(self.pattern[self.at - 1])
        found = self.escape()
        inner = self.set_of(found)
        code = inner if inner is not None else 8 if found["other"] == "b" else self.code_of(found, f"{_SYNTAX}-")
        self.at = found.end()
        return code
