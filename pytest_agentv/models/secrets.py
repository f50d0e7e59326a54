"""Secrets, and the one function that keeps them out of everything that is written."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from pytest_agentv.models.base import Json
from pytest_agentv.models.secret_rule import SHORTEST_SECRET, secrets_of
from pytest_agentv.models.spellings import Spellings

MASK: Final = "***"

_PEM_FRAME: Final = "-----"
"""The first and last lines of a private key begin so. They are the same in all keys."""


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
    """Knows the values of the run's secrets and replaces them by `***`, however they are spelled."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: frozenset[str] = frozenset()
        self._known: tuple[frozenset[str], Spellings | None] = (self._values, None)
        self.add(values)

    def add(self, values: Iterable[str]) -> None:
        """Learn more secrets, whole and line by line, as logs show them. Short and blank ones are passed over.

        Which values are secrets is up to the caller: `secret_rule` tells.
        """
        parts = {part.strip() for value in values for part in (value, *value.splitlines())}
        self._values |= {part for part in parts if len(part) >= SHORTEST_SECRET and not part.startswith(_PEM_FRAME)}

    def add_environment(self, environment: Mapping[str, str]) -> None:
        """Learn the secrets among the values of variables."""
        self.add(secret for name, value in environment.items() for secret in secrets_of(name, value))

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
        """Return the spellings of the values of now; other threads may add some at any time."""
        values, spellings = self._known
        if values is not self._values:
            values = self._values
            spellings = Spellings(values) if values else None
            self._known = (values, spellings)
        return spellings


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
