"""Masks pieces of secrets in a short text of a server: half of one, in another case, or with blanks in between."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from pytest_agentv.models.masking.secrets import MASK

_SHORTEST: Final = 8
"""The least number of characters that are masked, if they are at least half of a secret."""
_ESCAPE: Final = re.compile(r"\\+[nrt]?")


def mask_pieces(text: str, secrets: Iterable[str]) -> str:
    """Return a text without large pieces of secrets. Slow for long texts."""
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
