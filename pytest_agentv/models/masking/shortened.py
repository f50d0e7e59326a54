"""Finds what is left of a secret in a text that was shortened: `sk-live-AbCd...9012MnOp`, as pytest shows values."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from pytest_agentv.models.masking.spellings import GAP

_RUN: Final = re.compile(r"\.{3,}")
_LEAST_SIDE: Final = 4
"""The least characters on each side of a gap that belong to one secret. Few texts have both by chance."""
_LEAST: Final = 12
"""The least characters that are masked. Fewer only name a key, as `sk-ab...wxyz` does."""
_MOST_SIDE: Final = 640
"""The most characters that pytest shows of a value that it shortens. The limit saves memory."""
_MOST_DOTS: Final = 2
"""The most dots of a secret next to a gap that are expected."""

_Places: TypeAlias = Mapping[str, list[tuple[str, int]]]
"""Secrets, and lengths of one of their sides, by the characters next to the gap."""


class Shortened:
    """Replaces the beginning and the end of secrets around a gap.

    One side alone has to be half of its secret: many keys begin alike, and so do URLs.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        spelled = {spelling for secret in secrets for spelling in _spellings(secret)}
        beginnings: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        ends: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        for secret in spelled:
            for length in range(min(len(secret) - 1, _MOST_SIDE), _LEAST_SIDE - 1, -1):  # the longest first
                start = len(secret) - length
                beginnings[secret[length - _LEAST_SIDE : length]].append((secret, length))
                ends[secret[start : start + _LEAST_SIDE]].append((secret, length))
        self._beginnings: _Places = dict(beginnings)
        self._ends: _Places = dict(ends)

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
        lefts, rights = dict[str, int](), dict[str, int]()
        for secret, length in self._beginnings.get(text[max(0, gap - _LEAST_SIDE) : gap], ()):
            if secret not in lefts and length <= gap and text.startswith(secret[:length], gap - length):
                lefts[secret] = length
        for secret, length in self._ends.get(text[end : end + _LEAST_SIDE], ()):
            if secret not in rights and text.startswith(secret[-length:], end):
                rights[secret] = length
        sides = ((secret, lefts.get(secret, 0), rights.get(secret, 0)) for secret in {**lefts, **rights})
        return max((sizes for each in sides if (sizes := _masked(*each))), key=sum, default=None)


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
