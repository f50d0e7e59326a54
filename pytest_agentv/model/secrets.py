"""What is a secret, and the masker that keeps secrets out of everything that is written.

No other module decides which values are secrets. docs/reference.md explains the rule to users.
"""

import base64
import functools
import json
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote

from pytest_agentv.model.base import Json

SHORTEST_SECRET: Final = 6
"""Shorter values are never masked: replacing every `1` or `test` would destroy texts and hide nothing."""
_SHORTEST_KEY: Final = 8

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PASSWORD: Final = re.compile(r"(password|passwd|passphrase)\b|\b(pwd|pin|(ssh|db)?pass)$")
_NAMES: Final = (
    (re.compile(r"^(max|min|num)\b|^pwd$"), False),  # `PWD` alone is the working directory
    (re.compile(r"\bwebhook\b"), True),
    (
        re.compile(  # the last word describes a secret or its place
            r"\b(age|alg|algorithm|audience|budget|cost|count|dir|directory|disabled|domain|enabled|endpoint|"
            "expiration|expires|expiry|file|folder|format|host|hostname|issuer|kind|len|length|lifetime|limit|"
            "location|max|method|min|mode|ms|name|names|path|port|prefix|price|provider|region|required|scope|"
            "scopes|seconds|size|sock|socket|suffix|timeout|ttl|type|uri|url|usage|version)$"
        ),
        False,
    ),
    (re.compile(r"(token|secrets?|credentials?|(api|access|private|secret)key)\b"), True),
    (re.compile(r"\b(creds?|pat|jwt|bearer|cookie|authorization)\b|\bauth( header)?$"), True),
    (re.compile(r"\b(?!(cache|foreign|hot|idempotency|partition|primary|public|shard|shift|sort) )\w+ key\b"), True),
    (_PASSWORD, True),
)
"""Patterns for the words of a name in lower case, and whether it is that of a secret. The first match counts."""
_CONNECTION_NAME: Final = re.compile(r"(?i)(^|[^a-z])dsn([^a-z]|$)|conn(ection)?[-_ ]?str(ing)?([^a-z]|$)")

_WELL_KNOWN: Final = re.compile(
    "changeit|changeme|default|disabled|dummykey|dummypassword|empty|fakekey|lmstudio|mypassword|nokey|none|"
    "nopassword|notneeded|notrequired|notset|notused|ollama|password|placeholder|postgres|postgresql|"
    "redacted|secret|testtest|undefined|unused|yourapikeyhere|yourpassword"
)
"""Passwords of manuals and images, without signs. Answers use these words too."""
_SIGNS: Final = re.compile(r"[\W_]+")
_PLACEHOLDER: Final = re.compile(r"(\$\{|<|\{\{).*[}>]", re.DOTALL)
_NUMBER: Final = re.compile(r"([\s.,:_+/-]*\d){0,15}[\s.,:_+/-]*|(?!\d+\Z)[+-]?\d*\.?\d+(e[+-]?\d+)?", re.IGNORECASE)
"""A count, limit, date or address has at most 15 digits, a fraction any number of them. A longer number is a key."""
_PLAIN_WORD: Final = re.compile(r"[A-Z]?[a-z]{1,13}|[A-Z]{1,14}")
_UNSPEAKABLE: Final = re.compile(r"[^aeiouy]{6}|^[^aeiouy]{5,}$", re.IGNORECASE)
_BETWEEN_WORDS: Final = re.compile(r"[\s._/:-]+")
_LONGEST_WORDS: Final = 40

_URL: Final = re.compile(r"(?<=[A-Za-z0-9+.-])://([^\s/?#]+)@")
"""Looks back at only one character of the scheme, because searching for all of it would be quadratic in long words."""
_QUERY: Final = re.compile(r"[?&;]([A-Za-z_][\w.-]*)=([^&;#\s]+)")
_PAIR: Final = re.compile(r"(?:^|[;\s])\s*([A-Za-z_][\w .-]*?)\s*=\s*(\"[^\"]*\"|'[^']*'|[^;\s]+)")
_LOGIN: Final = re.compile(r"[^\s:/@]+[:/](\S+)@[^@]*")
_CREDENTIALS: Final = re.compile(r"(?i)\b(?:bearer|basic|token|apikey)\s+(\S+)")
_TICKET: Final = re.compile(r"[A-Z]{2,10}-\d{1,6}|[a-z]{2}-[A-Z]{2}(-\w{1,4})?")
"""Common values of the URL parameters `key` and `code`: ticket numbers, languages. Answers contain them too."""


def is_secret_name(name: str) -> bool:
    """Whether the name of a variable, or of a key in a file, says that it holds a secret."""
    words = _words(name)
    return next((is_secret for pattern, is_secret in _NAMES if pattern.search(words)), False)


def is_secret_value(value: str, *, is_password: bool = False) -> bool:
    """Whether a value looks like a secret. Numbers, short texts and plain words do not.

    A password may be a plain word or a number, so only well-known passwords do not count.
    """
    text = value.strip()
    if len(text) < SHORTEST_SECRET or len(set(text)) <= 2:  # `xxxxxxxx`
        return False
    if _WELL_KNOWN.fullmatch(_SIGNS.sub("", text).lower()) or _PLACEHOLDER.fullmatch(text):
        return False
    if is_password:
        return len(text) >= _SHORTEST_KEY or not (text.isalpha() or text.isdigit())
    if len(text) < _SHORTEST_KEY or _NUMBER.fullmatch(text):
        return False
    words = filter(None, _BETWEEN_WORDS.split(text))  # `sk-no-key-required` consists of plain words
    return len(text) > _LONGEST_WORDS or not all(
        _PLAIN_WORD.fullmatch(word) and not _UNSPEAKABLE.search(word) for word in words
    )


def secrets_of(name: str, value: str) -> Iterator[str]:
    """Yield the secrets that a variable holds: its value, or secret parts of the value.

    A URL may hold a password under any name.
    """
    text = value.strip()
    if len(text) < SHORTEST_SECRET:
        return
    if _is_secret(name, text):
        yield text
        yield from (part for part in _parts(text) if is_secret_value(part, is_password=True))
    found = [*_url_secrets(text), *(_connection_secrets(text) if _CONNECTION_NAME.search(name) else ())]
    for secret in found:
        yield from {secret, unquote(secret)}


def secrets_within(text: str) -> Iterator[str]:
    """Yield the secrets in a text that are recognizable without its name: in a URL, or after `Bearer` and the like."""
    yield from secrets_of("", text if "://" in text else f"url://{text}")
    yield from (found[1] for found in _CREDENTIALS.finditer(text) if is_secret_value(found[1]))


def _words(name: str) -> str:
    """Return the words of a name in lower case, without a number at its end."""
    words = _WORDS.findall(name)
    return " ".join(words[:-1] if words and words[-1].isdigit() else words).lower()


def _is_secret(name: str, value: str) -> bool:
    return is_secret_name(name) and is_secret_value(value, is_password=bool(_PASSWORD.search(_words(name))))


def _parts(text: str) -> Iterable[str]:
    """Return the secret parts of a text: the token after `Bearer`, the password of `user:password`, keys in JSON."""
    if text.startswith("{"):
        pairs: list[tuple[str, Json]] = []
        with suppress(ValueError, RecursionError):
            json.loads(text, object_pairs_hook=pairs.extend)
        return [item for key, item in pairs if isinstance(item, str) and is_secret_name(key)]
    if scheme := _CREDENTIALS.fullmatch(text):
        return [scheme[1]]
    is_login = ":" in text and "://" not in text and not any(map(str.isspace, text))
    return [text.partition(":")[2]] if is_login else []


def _url_secrets(text: str) -> Iterator[str]:
    for match in _URL.finditer(text):
        user, colon, password = match[1].partition(":")
        if is_secret_value(password, is_password=True):
            yield password
        if not colon and is_secret_value(user):
            yield user
    for name, value in _QUERY.findall(text) if "://" in text else ():
        if name in ("key", "code"):  # Google takes keys as `key`, Azure's functions take them as `code`
            is_secret = is_secret_value(value) and not _TICKET.fullmatch(value)
        else:
            is_secret = name == "sig" or _is_secret(name, value)
        if is_secret:
            yield value


def _connection_secrets(text: str) -> Iterator[str]:
    login = _LOGIN.fullmatch(text) if "://" not in text else None
    if login is not None and is_secret_value(login[1], is_password=True):
        yield login[1]
    pairs = ((name, quoted.strip("\"'")) for name, quoted in _PAIR.findall(text))
    yield from (value for name, value in pairs if _is_secret(name, value))


MASK: Final = "***"

_HTML: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
_SPELLINGS: Final[tuple[Callable[[str], str], ...]] = (
    str,
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: repr(text)[1:-1],  # in tracebacks
    lambda text: text.translate(_HTML),
    lambda text: quote(text, errors="surrogatepass"),
    lambda text: quote(text, "", errors="surrogatepass"),
    lambda text: quote_plus(text, errors="surrogatepass"),
)
_PEM_FRAME: Final = "-----"
"""Start of the first and last line of a private key. These lines are the same in all keys, so not secret."""
_CURRENT_TEST: Final = os.fsencode("PYTEST_CURRENT_TEST")
_KEPT_SECRETS: Final = 5000
"""How many are kept, so that a new secret does not spell the others again: each test may have its own token."""


@functools.lru_cache(_KEPT_SECRETS)
def _spellings(secret: str) -> Collection[str]:
    return frozenset((*(spell(secret) for spell in _SPELLINGS), *_base64(secret.encode("utf-8", "surrogatepass"))))


def _base64(content: bytes) -> Iterator[str]:
    """Yield the base64 texts of a content that stands alone, or within a longer one whose bits they leave out."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(content).decode()
        for before in range(3):
            end = 8 * (before + len(content)) // 6
            yield encode(bytes(before) + content).decode()[-(-8 * before // 6) : end]


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


class Masker:
    """Knows the values of the run's secrets and replaces them with `***`, in every spelling that it knows."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: frozenset[str] = frozenset()
        self._spelled: tuple[str, ...] = ()
        """All spellings of the values, the longest first."""
        self._adding = threading.Lock()
        self._seen: dict[bytes, bytes] = {}
        """All variables of this process so far, each with its newest value. Those of `.env` files come and go."""
        self.add(values)

    @classmethod
    def of_environment(cls) -> "Masker":
        """Return a masker that knows the secrets of this process's environment."""
        masker = cls()
        masker.look_again()
        return masker

    def add(self, values: Iterable[str]) -> None:
        """Add secrets, whole and line by line, because logs show single lines. Ignores short and blank ones."""
        parts = {part.strip() for value in values for part in (value, *value.splitlines())}
        found = {part for part in parts if len(part) >= SHORTEST_SECRET and not part.startswith(_PEM_FRAME)}
        with self._adding:
            if not found <= self._values:
                self._values |= found
                spelled = {spelling for value in self._values for spelling in _spellings(value)}
                self._spelled = tuple(sorted(spelled, key=len, reverse=True))

    def add_environment(self, environment: Mapping[str, str]) -> None:
        """Add the secrets among the values of variables."""
        self.add(secret for name, value in environment.items() for secret in secrets_of(name, value))

    def look_again(self) -> None:
        """Add the secrets among the variables of this process that are new or have changed since the last call.

        A fixture or a target may log in and set them. Takes a few microseconds if there are none.
        """
        # As the system has them: reading all of `os.environ` decodes them, which takes 30 times as long.
        data: Any = getattr(os.environ, "_data", os.environ)
        current: dict[bytes, bytes] = data.copy()
        current.pop(_CURRENT_TEST, None)  # pytest puts the name of the test there
        if not current.items() <= self._seen.items():
            changed = dict(current.items() - self._seen.items())
            self.add_environment({os.fsdecode(name): os.fsdecode(value) for name, value in changed.items()})
            self._seen = {**self._seen, **changed}  # only now: another thread may look meanwhile

    @property
    def is_needed(self) -> bool:
        """Whether there are secrets."""
        return bool(self._values)

    def mask(self, text: str) -> str:
        for spelling in self._spelled:
            text = text.replace(spelling, MASK)
        return text

    def mask_plain(self, value: Json) -> Json:
        """Mask every string in plain JSON data, keys included."""
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, Mapping):
            return {self.mask_plain(key): self.mask_plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.mask_plain(item) for item in value]
        return value


_CURRENT: Final[ContextVar[Masker | None]] = ContextVar("agentv_masker", default=None)


@contextmanager
def masking(masker: Masker) -> Iterator[None]:
    """Make `masked` use a masker in the current task and in tasks that it starts."""
    token = _CURRENT.set(masker)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def masked(text: str) -> str:
    """Mask the secrets of the current task's run.

    Use it for logs, and before cutting a text: the masker could not find half a secret later.
    """
    masker = _CURRENT.get()
    return text if masker is None else masker.mask(text)


def beginning(text: str, length: int) -> str:
    """Return a text, cut after `length` characters. Masks it before, because half a secret is not recognized."""
    return text if len(text) <= length else f"{masked(text)[:length]}…"
