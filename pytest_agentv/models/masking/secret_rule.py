"""The rule that decides which values are secrets, by the name of a variable and the look of its value.

No other module decides this. docs/secrets.md explains the rule to users.
"""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final
from urllib.parse import unquote

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
