"""What is left of a secret in a text that others shortened."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from pytest_agentv.model.secrets import GAP, MASK

_RUN: Final = re.compile(r"\.{3,}")
_LEAST_SIDE: Final = 4
"""The least characters on each side of a gap that belong to one secret. Few texts have both by chance."""
_LEAST: Final = 12
"""The least characters that are masked. Fewer only name a key, as `sk-ab...wxyz` does."""
_MOST_SIDE: Final = 640
"""The most characters that pytest shows of a value that it shortens. The limit saves memory."""
_MOST_TRIED: Final = 20
"""The most lengths that are tried next to a gap. Only a secret that repeats a few characters has more."""
_KEPT_SECRETS: Final = 5000
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


@lru_cache(_KEPT_SECRETS)
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
