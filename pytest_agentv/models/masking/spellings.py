"""Finds the spellings of a secret: as it is, escaped, quoted, URL-encoded or in base64."""

import base64
import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:  # only for texts that were shortened
    from pytest_agentv.models.masking.shortened import Shortened

_UNCHANGED: Final = re.compile(r"[A-Za-z0-9_.~-]+")
"""Characters that no escaping changes."""
_UNCHANGED_BASE64: Final = re.compile("[A-Za-z0-9]+")

_ENTITIES: Final = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}
_LETTERS: Final = {"\n": "n", "\r": "r", "\t": "t"}
"""The letters that encode control characters after a backslash."""

_MOST_BACKSLASHES: Final = 8
"""JSON in JSON in JSON has seven before a quotation mark. The limit keeps matching linear."""

_BASE64_SPELLINGS: Final = {"+": r"(?:[+-]|%2[bB])", "/": r"(?:\\?/|_|%2[fF])"}
"""The standard alphabet, that of URLs, and the standard one within a URL or JSON."""

_BASE64_END: Final = "[A-Za-z0-9+/_-]?(?:=|%3[dD]){0,2}"

_KEPT_PATTERNS: Final = 100
_KEPT_SECRETS: Final = 5000
"""How many are kept, so that a new secret does not spell the others again: each test may have its own token."""

GAP: Final = "..."
"""What pytest and `reprlib` put in place of the middle of a text."""


class Spellings:
    """Finds and replaces every spelling of some texts.

    Almost no text holds a secret. So it first searches a text for a piece of each spelling that never varies. That is
    several times as fast as the expression for all spellings.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._spelled = [spelled for secret in self._secrets for spelled in _spell_all(secret)]
        self._pieces = tuple(dict.fromkeys(piece for piece, _ in self._spelled))

    def replace(self, text: str, mask: str) -> str:
        """Return a text with each spelling replaced by a mask."""
        if any(piece in text for piece in self._pieces):
            found = tuple(expressions for piece, expressions in self._spelled if piece in text)
            text = _compile(found).sub(mask, text)
        return self._shortened.replace(text, mask) if GAP in text else text

    @cached_property
    def _shortened(self) -> "Shortened":
        from pytest_agentv.models.masking.shortened import Shortened  # noqa: PLC0415 - as above

        return Shortened(self._secrets)


def load_whole() -> None:
    """Import all that masking may need. Later, while results are written, the process may be out of open files."""
    import pytest_agentv.models.masking.shortened  # noqa: F401, PLC0415 - only for runs with secrets


_Spelled: TypeAlias = tuple[str, tuple[str, str]]
"""A piece that appears unchanged in the text, and the expressions for the first character and for the others."""


@functools.lru_cache(_KEPT_PATTERNS)
def _compile(spelled: Sequence[tuple[str, str]]) -> re.Pattern[str]:
    """Group spellings by first character, so that the time per character grows little with their number."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for first, rest in spelled:
        groups[first].append(rest)
    return re.compile("|".join(f"{first}(?:{'|'.join(dict.fromkeys(rests))})" for first, rests in groups.items()))


@functools.lru_cache(_KEPT_SECRETS)
def _spell_all(secret: str) -> Sequence[_Spelled]:
    first, *rest = map(_spell, secret)
    plain = max(_UNCHANGED.findall(secret), key=len, default="")
    content = secret.encode("utf-8", "surrogatepass")
    return (plain, (first, "".join(rest))), *(_spell_base64(content, offset) for offset in range(3))


def _spell_base64(content: bytes, offset: int) -> _Spelled:
    """Spell the base64 text of a content that starts `offset` bytes after a group of three.

    Leaves out the characters at both ends that also encode bits of neighbouring bytes.
    """
    bits = 8 * (offset + len(content))
    encoded = base64.b64encode(bytes(offset) + content).decode()[-(-8 * offset // 6) : bits // 6]
    first, *rest = (_BASE64_SPELLINGS.get(char, char) for char in encoded)
    piece = max(_UNCHANGED_BASE64.findall(encoded), key=len, default="")
    return piece, (first, "".join((*rest, _BASE64_END if bits % 6 else "")))


@functools.cache
def _spell(char: str) -> str:
    if _UNCHANGED.fullmatch(char):
        return re.escape(char)
    # The character itself comes last: `&` is the beginning of `&amp;`.
    return f"(?:{'|'.join((*_percent(char), *_entities(char), *_escapes(char), *_raw(char)))})"


def _raw(char: str) -> Iterator[str]:
    """Yield the character itself, with the backslashes of JSON, a shell or Python's `repr`."""
    if char == "'":
        yield from (r"'\\''", "'\"'\"'")  # its quoted forms in shells
    if char in _LETTERS:
        yield rf"\\{{1,{_MOST_BACKSLASHES}}}{_LETTERS[char]}"
    if char == "\n":
        yield r"\r\n"
    if char == "\\":
        yield rf"\\{{1,{_MOST_BACKSLASHES}}}"
    else:
        yield (rf"\\{{0,{_MOST_BACKSLASHES}}}" if char.isascii() else "") + re.escape(char)


def _percent(char: str) -> Iterator[str]:
    yield "".join(f"%(?:25)?{_any_case(f'{byte:02x}')}" for byte in char.encode("utf-8", "surrogatepass"))
    if char == " ":
        yield r"\+"


def _entities(char: str) -> Iterator[str]:
    code = ord(char)
    names = [_ENTITIES[char]] if char in _ENTITIES else []
    bodies = [*names, f"#0{{0,4}}{code}", f"#[xX]0{{0,4}}{_any_case(format(code, 'x'))}"]
    yield f"&(?:amp;)?(?:{'|'.join(bodies)});"


def _escapes(char: str) -> Iterator[str]:
    """Yield the escapes of JSON and JavaScript, and those of Python for texts and for bytes."""
    code, backslashes = ord(char), rf"\\{{1,{_MOST_BACKSLASHES}}}"
    units = char.encode("utf-16-be", "surrogatepass").hex()
    yield "".join(rf"{backslashes}u{_any_case(units[start : start + 4])}" for start in range(0, len(units), 4))
    if not char.isascii():  # bytes come before the code: those of `Ã`, U+00C3, begin with C3 as well
        yield "".join(rf"{backslashes}x{_any_case(f'{byte:02x}')}" for byte in char.encode("utf-8", "surrogatepass"))
        yield rf"{backslashes}U{_any_case(f'{code:08x}')}"
    if code <= 0xFF:
        yield rf"{backslashes}x{_any_case(f'{code:02x}')}"


def _any_case(digits: str) -> str:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits)
