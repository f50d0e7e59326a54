"""`regex`: patterns of authors, searched for with a time limit; JavaScript's patterns in the language of `regex`."""

import asyncio
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, NoReturn, Self

from pydantic import AfterValidator, Field, ValidationInfo, WithJsonSchema, model_validator

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Evaluator, or_sync, scope_of
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.text import shown_piece, verdict
from pytest_agentv.model.kind import Text, expected
from pytest_agentv.model.results import Score

# Writes characters and sets of JavaScript's regular expressions in the language of the package `regex`.
#
# No flag is needed to read what is written here: `\d` of the package is not that of JavaScript.

ANY: Final = r"[\x00-\U0010ffff]"
NONE: Final = r"[^\x00-\U0010ffff]"
DOT: Final = r"[^\n\r\u2028\u2029]"
_WORD: Final = "0-9A-Za-z_"
EDGE: Final = f"(?:(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}]))"
NO_EDGE: Final = f"(?:(?<=[{_WORD}])(?=[{_WORD}])|(?<![{_WORD}])(?![{_WORD}]))"
SETS: Final = {
    "d": "0-9",
    "D": r"\x00-/:-\U0010ffff",
    "w": _WORD,
    "W": r"\x00-/:-@\x5b-\x5e`\x7b-\U0010ffff",
    # The white space and the line terminators of ECMAScript.
    "s": r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
    "S": (
        r"\x00-\x08\x0e-\x1f!-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff"
        r"\u3001-\ufefe\uff00-\U0010ffff"
    ),
}
"""The inner part of a class by the letter of an escape. A class cannot hold the complement of another."""

_CATEGORY_NAMES: Final = """
C Other Cc Control cntrl Cf Format Cn Unassigned Co Private_Use Cs Surrogate L Letter LC Cased_Letter Ll
Lowercase_Letter Lm Modifier_Letter Lo Other_Letter Lt Titlecase_Letter Lu Uppercase_Letter M Mark Combining_Mark
Mc Spacing_Mark Me Enclosing_Mark Mn Nonspacing_Mark N Number Nd Decimal_Number digit Nl Letter_Number No
Other_Number P Punctuation punct Pc Connector_Punctuation Pd Dash_Punctuation Pe Close_Punctuation Pf
Final_Punctuation Pi Initial_Punctuation Po Other_Punctuation Ps Open_Punctuation S Symbol Sc Currency_Symbol Sk
Modifier_Symbol Sm Math_Symbol So Other_Symbol Z Separator Zl Line_Separator Zp Paragraph_Separator Zs
Space_Separator
"""
_BINARY_NAMES: Final = """
ASCII ASCII_Hex_Digit AHex Alphabetic Alpha Any Assigned Bidi_Control Bidi_C Bidi_Mirrored Bidi_M Case_Ignorable CI
Cased Changes_When_Casefolded CWCF Changes_When_Casemapped CWCM Changes_When_Lowercased CWL
Changes_When_Titlecased CWT Changes_When_Uppercased CWU Dash Default_Ignorable_Code_Point DI Deprecated Dep
Diacritic Dia Emoji Emoji_Component EComp Emoji_Modifier EMod Emoji_Modifier_Base EBase Emoji_Presentation EPres
Extended_Pictographic ExtPict Extender Ext Grapheme_Base Gr_Base Grapheme_Extend Gr_Ext Hex_Digit Hex
IDS_Binary_Operator IDSB IDS_Trinary_Operator IDST ID_Continue IDC ID_Start IDS Ideographic Ideo Join_Control
Join_C Logical_Order_Exception LOE Lowercase Lower Math Noncharacter_Code_Point NChar Pattern_Syntax Pat_Syn
Pattern_White_Space Pat_WS Quotation_Mark QMark Radical Regional_Indicator RI Sentence_Terminal STerm Soft_Dotted
SD Terminal_Punctuation Term Unified_Ideograph UIdeo Uppercase Upper Variation_Selector VS White_Space space
XID_Continue XIDC XID_Start XIDS
"""
"""The properties that need no value, as ECMAScript spells them. The package takes more, such as `Greek` and `alnum`."""
_CATEGORIES: Final = frozenset(_CATEGORY_NAMES.split())
_BINARY: Final = frozenset(_BINARY_NAMES.split())
_BLOCKS: Final = {"IDC": "ID_Continue", "VS": "Variation_Selector"}
"""Short names that the package takes for those of blocks."""
_SCRIPT: Final = re.compile(r"(?:Script|sc|Script_Extensions|scx)=(?:[A-Z][a-z]+){1,2}(?:_[A-Z][a-z]+)*")


def property_set(letter: str, name: str) -> str | None:
    r"""Return the inner part of a class for `\p{name}` or `\P{name}`; None if ECMAScript has no such property."""
    category = name.removeprefix("General_Category=").removeprefix("gc=")
    if category in _CATEGORIES:
        return rf"\{letter}{{gc={category}}}"
    return rf"\{letter}{{{_BLOCKS.get(name, name)}}}" if name in _BINARY or _SCRIPT.fullmatch(name) else None


def literal(code: int) -> str:
    """Return what matches one character, within a class and outside."""
    char = chr(code)
    return char if char.isalnum() and char.isascii() else rf"\U{code:08x}"


# Reads the characters, escapes and classes of a regular expression of JavaScript.
#
# It is read with the flag `u`, as JSON Schema says. What is an error then, and has a meaning without the flag, is read
# without it: many schemas have `\-` outside a class. Letters are not: only without the flag is `\Z` the letter Z, and
# hardly any author means it.

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


# Translates regular expressions of JavaScript, the language of JSON Schema, into that of the package `regex`.
#
# A group of JavaScript forgets its text when a repetition around it begins again, and `\1` is empty while there is no
# text. The package does neither. So an empty group of the same name stands at each place where a text is forgotten.

_FOREIGN: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|(?P<group>\(\?(?![:=!<]))", re.DOTALL)
_QUANTIFIER: Final = re.compile(r"(?:[*+?]|\{(?P<least>\d+)(?:,(?P<most>\d*))?\})\??", re.ASCII)
MOST: Final = 2**32 - 2
"""The highest count of a repetition. It is more than the characters of any answer."""
_GROUP: Final = re.compile(r"\((?:\?(?P<sign>[:=!]|<[=!])|\?<(?P<name>[^>]+)>|(?!\?))")


@dataclass(frozen=True, slots=True)
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


# Searches texts for the patterns of authors, with a time limit, so that a bad pattern cannot stop the run.
#
# Patterns are in the language of Python's `re`, which checks them. The package `regex` searches, because it can be
# stopped. The docs of the check `regex` say where its matches differ from those of `re`.

SECONDS: Final = 2.0
"""The limit of a search, in seconds."""
SECONDS_HELD_UP: Final = 0.25
"""The limit of a search that blocks the other cases, in seconds."""
AT_ONCE: Final = 0.02
"""How long a search may block the other cases, in seconds. A longer search continues in a thread."""

_NAMED_ELSEWHERE: Final = re.compile(r"\(\?<([^\W\d]\w*)>")
"""A group with a name, as JavaScript and other languages write it."""
_BRACE: Final = re.compile(r"(\\N\{[^}]*\}|\\.|\{\d*,?\d*\})|(\{)", re.DOTALL)
_REFERENCE: Final = re.compile(r"\\[1-9]|\(\?P=|\(\?\(")
_ENDLESS: Final = re.compile(
    r"(?P<kept>\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\?\+|\{\d*,?\d+\}\+)|(?:(?P<sign>[*+])|\{(?P<least>\d*),\})(?P<way>[?+]?)",
    re.DOTALL,
)
"""A repetition without limit, such as "+", "*?" and "{2,}+", or what only looks like one."""


def check_pattern(pattern: str, flags: str = "") -> str | None:
    """Return the fault of a pattern with its place; None if it is valid."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern, _flags(re, flags))
    except re.error as error:
        found = _NAMED_ELSEWHERE.search(pattern)
        hint = f" (did you mean '(?P<{found[1]}>…)'?)" if found and "unknown extension ?<" in str(error) else ""
        return f"{pattern!r} is no regular expression: {error}{hint}"
    except (Warning, OverflowError, RecursionError) as error:
        return f"{pattern!r} is no clear regular expression: {error}"
    try:
        _compiled(pattern, flags)
    except Exception as error:  # noqa: BLE001 - the package has an error class of its own, and raises others as well
        return f"{pattern!r} is not supported: {error}"
    return None


async def search(pattern: str, flags: str, text: str, timeout_seconds: float | None) -> str | None:
    """Return the first match in a text; None: there is none. Raises `TimeoutError` with a message."""
    compiled = _compiled(pattern, flags)
    try:
        return _search(compiled, text, AT_ONCE)
    except TimeoutError:
        pass
    limit = SECONDS if timeout_seconds is None else min(SECONDS, timeout_seconds)
    try:
        return await asyncio.to_thread(_search, compiled, text, limit)
    except TimeoutError:
        raise TimeoutError(too_slow(pattern, limit)) from None


def search_now(pattern: str, text: str, *, is_of_schema: bool = False) -> bool:
    """Whether a pattern is found, for checks that search many texts.

    Raises `TimeoutError` with a message, and `ValueError` for a pattern of a schema that cannot be used.
    """
    compiled = of_schema(pattern) if is_of_schema else _compiled(pattern, "")
    try:
        return _search(compiled, text, SECONDS_HELD_UP) is not None
    except TimeoutError:
        raise TimeoutError(too_slow(pattern, SECONDS_HELD_UP)) from None


@lru_cache(maxsize=512)
def of_schema(pattern: str) -> Any:
    """Return the compiled pattern of a JSON Schema, which is in the language of JavaScript. Raises `ValueError`.

    Groups that JavaScript lacks, such as flags, tell that Python's language is meant.
    """
    import regex  # noqa: PLC0415 - as below

    if is_foreign(pattern):
        fault = check_pattern(pattern)
        if fault is not None:
            raise ValueError(fault)
        return _compiled(pattern, "")
    try:
        return regex.compile(in_python(pattern), regex.V0)
    except PatternFault as error:
        raise ValueError(f"{pattern!r} is no regular expression of JavaScript: {error}") from None
    except (ValueError, OverflowError, regex.error) as error:
        raise ValueError(f"{pattern!r} is not supported: {error}") from None


def too_slow(pattern: str, seconds: float) -> str:
    """Return the message for a search that was given up."""
    return (
        f"the pattern {pattern!r} was given up after {seconds:g} s: it tries too many ways to match. "
        "Nested repetitions such as (a+)+ do that"
    )


def _search(compiled: Any, text: str, seconds: float) -> str | None:
    found = compiled.search(text, timeout=seconds, concurrent=True)
    return None if found is None else str(found[0])


@lru_cache(maxsize=512)
def _compiled(pattern: str, flags: str) -> Any:
    import regex  # noqa: PLC0415 - only for checks with patterns

    return regex.compile(_same_language(pattern), _flags(regex, flags))


def _same_language(pattern: str) -> str:
    """Escape braces that `re` takes literally: `regex` would match `{e<=1}` approximately.

    If the text of a group counts, limit all repetitions. Without a limit, the package does not come back to a place,
    even if a group has another text then.
    """
    escaped = _BRACE.sub(lambda found: found[1] or r"\{", pattern)
    return _ENDLESS.sub(_limited, escaped) if _REFERENCE.search(pattern) else escaped


def _limited(found: re.Match[str]) -> str:
    if found["kept"]:
        return found["kept"]
    least = found["least"] or ("1" if found["sign"] == "+" else "0")
    return f"{{{least},{MOST}}}{found['way']}"


def _flags(module: Any, letters: str) -> Any:
    total = module.V0 if hasattr(module, "V0") else module.NOFLAG
    for letter in letters:
        total |= getattr(module, letter.upper())
    return total


# `regex`: the answer matches a pattern.

LETTERS: Final = "aimsx"
_FLAGS: Final = {"type": "string", "pattern": f"^[{LETTERS}]+$"}
_LITERAL: Final = re.compile(r"/((?:[^/\\\[]|\\.|\[(?:[^\]\\]|\\.)*\])+)/((?:([dgimsuvy])(?!.*\3))*)", re.DOTALL)
"""A pattern as JavaScript writes it: `/yes|no/i`. No flag is there twice: `/dev/sdd` is a path."""
_SURE_FLAGS: Final = re.compile("[gim]+")
"""Flags that few paths end with, unlike `/dev/sd`, `/api/v`, `/usr/my`."""


def _letters(value: str) -> str:
    if not value or not set(value) <= set(LETTERS):
        raise expected("letters of i (ignore case), m (multiline), s (dot matches all), a (ASCII), x (verbose)")
    return value


def _pattern(value: str, info: ValidationInfo) -> str:
    fault = check_pattern(value)
    if fault:
        raise ValueError(fault)
    scope = scope_of(info)
    literal = _LITERAL.fullmatch(value)
    if scope is not None and literal is not None:
        flags = "".join(letter for letter in literal[2] if letter in LETTERS)
        place = scope.place.at("value")
        # It may be a path, for which a strict run must not fail.
        note = place.warn if _SURE_FLAGS.fullmatch(literal[2]) else place.suggest
        note(
            f"{value!r} looks for the slashes too",
            f"write the pattern without them: {literal[1]}" + (f", and flags: {flags}" if flags else ""),
        )
    return value


class Regex(Evaluator):
    r"""The answer matches a pattern of Python's `re`, anywhere.

    The package `regex` searches, because it can be stopped. It differs from `re` in details: `\w` matches combining
    marks, and does not match `²` or `½`; `\s` does not match the control characters 1C to 1F; `\B` matches an empty
    answer; with `flags: i`, `I` does not match `İ`, and `i` does not match the dotless i.
    """

    kind = "regex"
    is_graded = False
    examples = ({"answer": "Order no. 1001 was sent.", "assert": [{"regex": "order no\\. \\d{4}", "flags": "i"}]},)

    value: Annotated[Text, AfterValidator(_pattern)] = Field(
        description="the pattern, as for Python's `re.search`", examples=["\\d+ days"]
    )
    flags: Annotated[str, AfterValidator(_letters), WithJsonSchema(_FLAGS)] | None = Field(
        default=None, description="letters: `i` ignores case, and `m`, `s`, `a`, `x` as in `re`", examples=["i"]
    )

    @model_validator(mode="after")
    def _compiles_with_its_flags(self) -> Self:
        fault = check_pattern(self.value, self.flags) if self.flags else None
        if fault:
            raise ValueError(fault)
        return self

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        """Search without holding up other cases. Raises `EvaluatorError` when the pattern takes too long."""
        try:
            found = await search(self.value, self.flags or "", context.candidate_answer, context.timeout_seconds)
        except TimeoutError as error:
            raise EvaluatorError(str(error), kind="timeout") from None
        pattern = f"/{self.value}/{self.flags or ''}"
        if found is None:
            return verdict(False, "", f"does not match {pattern}")
        return verdict(True, f"matches {pattern}: {shown_piece(found, context.candidate_answer)}", "")
