"""Secrets, and the one function that keeps them out of everything that is written."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from pytest_agentv.models.base import Json

MASK: Final = "***"

SECRET_NAME: Final = re.compile(r"(?i)(api[-_]?key|access[-_]?key|secret|token|passw(or)?d|credential|private[-_]?key)")
"""Names of variables whose values are secrets."""

SHORTEST_SECRET: Final = 6
"""Shorter values are not masked: replacing every `1` or `test` would wreck the texts and hide nothing."""


class Secret:
    """A value that shows itself only to who asks for it by `reveal`."""

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
    """Knows the values of the run's secrets and replaces them by `***`."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Learn more secrets, also as JSON texts hold them, and line by line, as logs do.

        Blank and very short ones are passed over.
        """
        parts = (part.strip() for value in values for part in (value, *value.splitlines()))
        plain = {part for part in parts if len(part) >= SHORTEST_SECRET}
        new = plain | {
            json.dumps(value, ensure_ascii=ascii_only)[1:-1] for value in plain for ascii_only in (True, False)
        }
        if not new <= self._values:
            self._values |= new
            longest_first = sorted(self._values, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def add_environment(self, environment: Mapping[str, str]) -> None:
        """Learn the values of all variables whose names say that they hold a secret."""
        self.add(value for name, value in environment.items() if SECRET_NAME.search(name))

    def mask(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._pattern else text

    def mask_plain(self, value: Json) -> Json:
        """Mask every string in plain JSON data, keys included."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, Mapping):
            return {self.mask(key): self.mask_plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.mask_plain(item) for item in value]
        return value


_CURRENT: Final[ContextVar[Masker | None]] = ContextVar("agentv_masker", default=None)


@contextmanager
def masking(masker: Masker) -> Iterator[None]:
    """Let `masked` hide the secrets of a masker, in this task and those it starts."""
    token = _CURRENT.set(masker)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def masked(text: str) -> str:
    """Mask the secrets of the run that the current task belongs to.

    For texts that are cut, because the rest of a secret at the cut would not be known as one later, and for logs.
    """
    masker = _CURRENT.get()
    return text if masker is None else masker.mask(text)
