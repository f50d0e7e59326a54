"""What is a secret, and the masker that keeps secrets out of everything that is written.

No other module decides which values are secrets. docs/secrets.md explains the rule to users.
"""

import base64
import functools
import json
import os
import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from pytest_agentv.model.base import Json

SHORTEST_SECRET: Final = 6
"""Shorter values are never masked: replacing every `1` or `test` would destroy texts and hide nothing."""

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORD: Final = re.compile(
    r".*(token|secrets?|credentials?|(api|access|private|secret)key)|creds?|pat|jwt|bearer|cookie|authorization"
)
_PASSWORD_WORD: Final = re.compile(r"pwd|pin|(ssh|db)?pass")
_HARMLESS_FIRST: Final = frozenset(("max", "min", "num"))
_HARMLESS_LAST: Final = re.compile(
    "age|alg|algorithm|audience|budget|cost|count|dir|directory|disabled|domain|enabled|endpoint|expiration|"
    "expires|expiry|file|folder|format|host|hostname|issuer|kind|len|length|lifetime|limit|location|max|"
    "method|min|mode|ms|name|names|path|port|prefix|price|provider|region|required|scope|scopes|seconds|size|"
    "sock|socket|suffix|timeout|ttl|type|uri|url|usage|version"
)
"""Last words of names that describe a secret or its place, but do not contain it."""
_HARMLESS_KEYS: Final = re.compile("cache|foreign|hot|idempotency|partition|primary|public|shard|shift|sort")
_CONNECTION_NAME: Final = re.compile(r"(?i)(^|[^a-z])dsn([^a-z]|$)|conn(ection)?[-_ ]?str(ing)?([^a-z]|$)")

_PLACEHOLDERS: Final = re.compile(
    "changeit|changeme|default|disabled|dummykey|dummypassword|empty|fakekey|lmstudio|mypassword|nokey|none|"
    "nopassword|notneeded|notrequired|notset|notused|ollama|password|placeholder|postgres|postgresql|"
    "redacted|secret|testtest|undefined|unused|yourapikeyhere|yourpassword"
)
"""Well-known passwords of manuals and images, without signs. Answers use these words too."""
_SIGNS: Final = re.compile(r"[\W_]+")
_NUMBER: Final = re.compile(r"[\d\s.,:_+/-]+")
_FRACTION: Final = re.compile(r"[+-]?\d*\.?\d+(e[+-]?\d+)?", re.IGNORECASE)
_MOST_DIGITS: Final = 15
"""Most digits of a count, limit, date or address. A longer number is a key."""
_PLAIN_WORD: Final = re.compile(r"[A-Z]?[a-z]{1,13}|[A-Z]{1,14}")
_UNSPEAKABLE: Final = re.compile(r"[^aeiouy]{6}|^[^aeiouy]{5,}$", re.IGNORECASE)
_BETWEEN_WORDS: Final = re.compile(r"[\s._/:-]+")
_LONGEST_WORDS: Final = 40
_SHORTEST_KEY: Final = 8

_URL: Final = re.compile(r"(?<=[A-Za-z0-9+.-])://([^\s/?#]+)@")
"""Looks back at only one character of the scheme, because searching for all of it would be quadratic in long words."""
_QUERY: Final = re.compile(r"[?&;]([A-Za-z_][\w.-]*)=([^&;#\s]+)")
_PAIR: Final = re.compile(r"(?:^|[;\s])\s*([A-Za-z_][\w .-]*?)\s*=\s*(\"[^\"]*\"|'[^']*'|[^;\s]+)")
_LOGIN: Final = re.compile(r"[^\s:/@]+[:/](\S+)@[^@]*")
_CREDENTIALS: Final = re.compile(r"(?i)\b(?:bearer|basic|token|apikey)\s+(\S+)")
_TICKET: Final = re.compile(r"[A-Z]{2,10}-\d{1,6}|[a-z]{2}-[A-Z]{2}(-\w{1,4})?")
"""Common values of the URL parameters `key` and `code`: ticket numbers, languages. Answers contain them too."""
_SCHEME: Final = re.compile(r"(?i)(?:bearer|basic|token|apikey)\s+(\S+)")


def is_secret_name(name: str) -> bool:
    """Whether the name of a variable, or of a key in a file, says that it holds a secret."""
    words = _words(name)
    if not words or words[0] in _HARMLESS_FIRST:
        return False
    if "webhook" in words:
        return True
    if _HARMLESS_LAST.fullmatch(words[-1]):
        return False
    if words[-1] == "auth" or words[-2:] == ["auth", "header"]:
        return True
    return any(map(_SECRET_WORD.fullmatch, words)) or _is_key(words) or _is_password(words)


def is_secret_value(value: str, *, is_password: bool = False) -> bool:
    """Whether a value looks like a secret. Numbers, short texts and plain words do not.

    A password may be a plain word or a number, so only well-known passwords do not count.
    """
    text = value.strip()
    if len(text) < SHORTEST_SECRET or len(set(text)) <= 2:  # `xxxxxxxx`
        return False
    if _PLACEHOLDERS.fullmatch(_SIGNS.sub("", text).lower()):
        return False
    if text.startswith(("${", "<", "{{")) and text.endswith(("}", ">")):  # a placeholder
        return False
    if is_password:
        return len(text) >= _SHORTEST_KEY or not (text.isalpha() or text.isdigit())
    return len(text) >= _SHORTEST_KEY and not _is_number(text) and not _is_plain(text)


def secrets_of(name: str, value: str) -> Iterator[str]:
    """Yield the secrets that a variable holds: its value, or secret parts of the value.

    A URL may hold a password under any name.
    """
    text = value.strip()
    if len(text) < SHORTEST_SECRET:
        return
    if is_secret_name(name):
        is_password = _is_password(_words(name))
        if is_secret_value(text, is_password=is_password):
            yield text
            yield from (part for part in _parts(text) if is_secret_value(part, is_password=True))
    found = [*_url_secrets(text), *(_connection_secrets(text) if _CONNECTION_NAME.search(name) else ())]
    for secret in found:
        yield from {secret, unquote(secret)}


def secrets_within(text: str) -> Iterator[str]:
    """Yield the secrets in a text that are recognizable without its name: in a URL, or after `Bearer` and the like."""
    yield from secrets_of("", text if "://" in text else f"url://{text}")
    yield from (found[1] for found in _CREDENTIALS.finditer(text) if is_secret_value(found[1]))


def _words(name: str) -> list[str]:
    """Return the words of a name in lower case, without a number at its end."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return words[:-1] if words and words[-1].isdigit() else words


def _is_key(words: list[str]) -> bool:
    """Whether words name a secret key: `OPENAI_KEY`, `API_KEY_PROD`, but not `SORT_KEY` or a bare `key`."""
    return any(word == "key" and not _HARMLESS_KEYS.fullmatch(before) for before, word in pairwise(words))


def _is_password(words: list[str]) -> bool:
    """Whether words name a password: `DB_PASSWORD`, `PGPASSWORD`, `DB_PASS`. `PWD` alone is the working directory."""
    if words == ["pwd"]:
        return False
    if any(word.endswith(("password", "passwd", "passphrase")) for word in words):
        return True
    return bool(words) and _PASSWORD_WORD.fullmatch(words[-1]) is not None


def _is_number(text: str) -> bool:
    if not text.isdigit() and _FRACTION.fullmatch(text):
        return True
    return _NUMBER.fullmatch(text) is not None and sum(map(str.isdigit, text)) <= _MOST_DIGITS


def _is_plain(text: str) -> bool:
    """Whether a text consists of plain words, such as `sk-no-key-required`."""
    words = [word for word in _BETWEEN_WORDS.split(text) if word]
    return len(text) <= _LONGEST_WORDS and all(
        _PLAIN_WORD.fullmatch(word) and not _UNSPEAKABLE.search(word) for word in words
    )


def _parts(text: str) -> Iterator[str]:
    """Yield the secret parts of a text: the token after `Bearer`, the password of `user:password`, keys in JSON."""
    if text.startswith("{"):
        yield from _json_secrets(text)
    elif (scheme := _SCHEME.fullmatch(text)) is not None:
        yield scheme[1]
    elif ":" in text and "://" not in text and not any(map(str.isspace, text)):
        yield text.partition(":")[2]


def _json_secrets(text: str) -> Iterator[str]:
    try:
        waiting = [json.loads(text)]
    except (ValueError, RecursionError):
        return
    while waiting:
        value = waiting.pop()
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, str) and is_secret_name(str(key)):
                yield item
            elif isinstance(item, dict | list):
                waiting.append(item)


def _url_secrets(text: str) -> Iterator[str]:
    for match in _URL.finditer(text):
        user, colon, password = match[1].partition(":")
        if is_secret_value(password, is_password=True):
            yield password
        if not colon and is_secret_value(user):
            yield user
    if "://" in text:
        yield from (each[2] for each in _QUERY.finditer(text) if _is_secret_parameter(*each.groups()))


def _is_secret_parameter(name: str, value: str) -> bool:
    """Whether a parameter of a URL is a secret: Google takes keys as `key`, Azure's functions take them as `code`."""
    if name in ("key", "code"):
        return is_secret_value(value) and not _TICKET.fullmatch(value)
    return name == "sig" or _is_secret_pair(name, value)


def _connection_secrets(text: str) -> Iterator[str]:
    login = _LOGIN.fullmatch(text) if "://" not in text else None
    if login is not None and is_secret_value(login[1], is_password=True):
        yield login[1]
    for name, quoted in _PAIR.findall(text):
        value = quoted.strip("\"'")
        if _is_secret_pair(name, value):
            yield value


def _is_secret_pair(name: str, value: str) -> bool:
    return is_secret_name(name) and is_secret_value(value, is_password=_is_password(_words(name)))


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
    """Finds and replaces every spelling of some texts: as they are, escaped, quoted, URL-encoded or in base64.

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
        return Shortened(self._secrets)


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


MASK: Final = "***"

_PEM_FRAME: Final = "-----"
"""Start of the first and last line of a private key. These lines are the same in all keys, so not secret."""

_CURRENT_TEST: Final = os.fsencode("PYTEST_CURRENT_TEST")


class Secret:
    """A value that only `reveal` returns. Its `repr` and `str` hide it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK!r})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


_Variables: TypeAlias = dict[bytes, bytes]


def _variables() -> _Variables:
    """Return the variables of this process, without the one in which pytest puts the name of the current test.

    As the system has them: reading all names and values from `os.environ` decodes them, which takes 30 times as long.
    """
    data: Any = getattr(os.environ, "_data", os.environ)
    found: _Variables = data.copy()
    if _CURRENT_TEST in found:
        del found[_CURRENT_TEST]
    return found


class Masker:
    """Knows the values of the run's secrets and replaces them with `***` in every known spelling."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: frozenset[str] = frozenset()
        self._adding = threading.Lock()
        self._last: _Variables = {}
        """The variables of this process at the last look."""
        self._seen: _Variables = {}
        """All variables so far, each with its newest value. Those of `.env` files come and go."""
        self._known: tuple[frozenset[str], Spellings | None] = (self._values, None)
        self.add(values)

    @classmethod
    def of_environment(cls) -> "Masker":
        """Return a masker that knows the secrets of this process's environment."""
        masker = cls()
        masker.look_again()
        return masker

    def add(self, values: Iterable[str]) -> None:
        """Add secrets, whole and line by line, because logs show single lines. Ignores short and blank ones.

        The caller decides which values are secrets, by `secret_rule`.
        """
        parts = {part.strip() for value in values for part in (value, *value.splitlines())}
        found = {part for part in parts if len(part) >= SHORTEST_SECRET and not part.startswith(_PEM_FRAME)}
        with self._adding:
            if not found <= self._values:  # else the spellings would be made again
                self._values |= found

    def add_environment(self, environment: Mapping[str, str]) -> None:
        """Add the secrets among the values of variables."""
        self.add(secret for name, value in environment.items() for secret in secrets_of(name, value))

    def look_again(self) -> None:
        """Add the secrets among the variables of this process that are new or have changed since the last call.

        A fixture or a target may log in and set them. Takes a few microseconds if there are none.
        """
        current = _variables()
        if current == self._last:
            return
        seen = self._seen
        changed = {name: value for name, value in current.items() if seen.get(name) != value}
        self.add_environment({os.fsdecode(name): os.fsdecode(value) for name, value in changed.items()})
        self._last, self._seen = current, {**seen, **changed}  # only now: another thread may look meanwhile

    @property
    def is_needed(self) -> bool:
        """Whether there are secrets."""
        return self._spellings() is not None

    def mask(self, text: str) -> str:
        spellings = self._spellings()
        return text if spellings is None else spellings.replace(text, MASK)

    def mask_plain(self, value: Json) -> Json:
        """Mask every string in plain JSON data, keys included."""
        if self._spellings() is None:
            return value
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, Mapping):
            return {self.mask_plain(key): self.mask_plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.mask_plain(item) for item in value]
        return value

    def _spellings(self) -> Spellings | None:
        """Return the spellings of the current values. Other threads may add values at any time."""
        values, spellings = self._known
        if values is not self._values:
            values = self._values
            spellings = Spellings(values) if values else None
            self._known = (values, spellings)
        return spellings


_CURRENT: Final[ContextVar[Masker | None]] = ContextVar("agentv_masker", default=None)


class masking:  # noqa: N801 - used like a function, as `contextlib.suppress` is
    """Makes `masked` use a masker in the current task and in tasks that it starts."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker

    def __enter__(self) -> None:
        self._token = _CURRENT.set(self._masker)

    def __exit__(self, *_: object) -> None:
        _CURRENT.reset(self._token)


def masked(text: str) -> str:
    """Mask the secrets of the current task's run.

    Use it for logs, and before cutting a text: the masker could not find half a secret later.
    """
    masker = _CURRENT.get()
    return text if masker is None else masker.mask(text)


def beginning(text: str, length: int) -> str:
    """Return a text, cut after `length` characters. Masks it before, because half a secret is not recognized."""
    return text if len(text) <= length else f"{masked(text)[:length]}…"


# What is left of a secret in a text that others shortened.

_RUN: Final = re.compile(r"\.{3,}")
_LEAST_SIDE: Final = 4
"""The least characters on each side of a gap that belong to one secret. Few texts have both by chance."""
_LEAST: Final = 12
"""The least characters that are masked. Fewer only name a key, as `sk-ab...wxyz` does."""
_MOST_SIDE: Final = 640
"""The most characters that pytest shows of a value that it shortens. The limit saves memory."""
_MOST_TRIED: Final = 20
"""The most lengths that are tried next to a gap. Only a secret that repeats a few characters has more."""
_MOST_DOTS: Final = 2
"""The most dots of a secret next to a gap that are expected."""

_Lengths: TypeAlias = Mapping[str, list[int]]
"""Lengths of a side of a secret, the longest first, by the characters next to the gap."""


class _Sides(NamedTuple):
    """Where a secret may be cut."""

    secret: str
    beginnings: _Lengths
    ends: _Lengths


class Shortened:
    """Replaces the beginning and the end of secrets around a gap: `sk-live-AbCd...9012MnOp`, as pytest shows values.

    One side alone has to be half of its secret: many keys begin alike, and so do URLs.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._all = [_sides_of(spelling) for spelling in {each for secret in secrets for each in _spellings(secret)}]

    def replace(self, text: str, mask: str) -> str:
        """Return a text with the rest of each shortened secret replaced by a mask."""
        parts, done = [], 0
        for begin, end, shown in self._found(text, mask):
            if begin >= done:
                parts += [text[done:begin], shown]
                done = end
        return "".join((*parts, text[done:])) if parts else text

    def _found(self, text: str, mask: str) -> Iterator[tuple[int, int, str]]:
        """Yield the start and end of each rest in the text, and what replaces it."""
        for run in _RUN.finditer(text):
            for gap in _gaps(*run.span()):
                found = self._sides(text, gap, gap + len(GAP))
                if found is not None:
                    left, right = found
                    shown = mask if left and right else f"{mask}{GAP}" if left else f"{GAP}{mask}"
                    yield gap - left, gap + len(GAP) + right, shown
                    break

    def _sides(self, text: str, gap: int, end: int) -> tuple[int, int] | None:
        """Return the lengths of the sides of the secret around a gap; None: there is no secret, or too little of it."""
        before, after = text[max(0, gap - _LEAST_SIDE) : gap], text[end : end + _LEAST_SIDE]
        found = []
        for secret, beginnings, ends in self._all:
            lefts = (n for n in beginnings.get(before, ()) if n <= gap and text.startswith(secret[:n], gap - n))
            rights = (n for n in ends.get(after, ()) if text.startswith(secret[-n:], end))
            found.append(_masked(secret, next(lefts, 0), next(rights, 0)))
        return max(filter(None, found), key=sum, default=None)


@functools.lru_cache(_KEPT_SECRETS)
def _sides_of(secret: str) -> _Sides:
    """Kept, because each test may have its own token: a new one must not look at the others again."""
    beginnings: defaultdict[str, list[int]] = defaultdict(list)
    ends: defaultdict[str, list[int]] = defaultdict(list)
    for length in range(min(len(secret) - 1, _MOST_SIDE), _LEAST_SIDE - 1, -1):
        start = len(secret) - length
        for lengths, key in ((beginnings, secret[length - _LEAST_SIDE : length]), (ends, secret[start:][:_LEAST_SIDE])):
            if len(lengths[key]) < _MOST_TRIED:
                lengths[key].append(length)
    return _Sides(secret, dict(beginnings), dict(ends))


def _gaps(begin: int, end: int) -> Iterator[int]:
    """Yield where the gap may begin in a run of dots. The other dots belong to the secret."""
    last = end - len(GAP)
    yield from range(begin, min(begin + _MOST_DOTS, last) + 1)
    yield from range(max(begin + _MOST_DOTS + 1, last - _MOST_DOTS), last + 1)


def _masked(secret: str, left: int, right: int) -> tuple[int, int] | None:
    """Return how much of each side to mask; None: nothing."""
    if left and right and left + right >= _LEAST:
        return left, right
    least = max(_LEAST, len(secret) // 2)
    return (left, right) if max(left, right) >= least else None


def _spellings(secret: str) -> tuple[str, ...]:
    """Return a secret as it is, and as the texts that are shortened spell it."""
    return secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]


_SHORTEST: Final = 8
"""The least number of characters that are masked, if they are at least half of a secret."""
_ESCAPE: Final = re.compile(r"\\+[nrt]?")


def mask_pieces(text: str, secrets: Iterable[str]) -> str:
    """Return the text of a server without large pieces of secrets, in any case or with blanks in between.

    Slow for long texts.
    """
    for secret in sorted(secrets, key=len, reverse=True):
        for begin, end in reversed(list(_pieces(text, secret.lower()))):
            text = f"{text[:begin]}{MASK}{text[end:]}"
    return text


def _pieces(text: str, secret: str) -> Iterator[tuple[int, int]]:
    """Yield the starts and ends of pieces of a secret in lower case."""
    spaced = _ESCAPE.sub(lambda escape: " " * len(escape[0]), text)
    places = [place for place, char in enumerate(spaced) if not char.isspace()]
    plain = "".join(spaced[place].lower()[:1] for place in places)
    least = max(_SHORTEST, len(secret) // 2)
    begin = 0
    while begin + least <= len(plain):
        end = begin + least
        if plain[begin:end] not in secret:
            begin += 1
            continue
        while end < len(plain) and plain[begin : end + 1] in secret:
            end += 1
        yield places[begin], places[end - 1] + 1
        begin = end
