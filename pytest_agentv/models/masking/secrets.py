"""Secrets, and the masker that keeps them out of everything that is written."""

import os
import threading
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

from pytest_agentv.models.base import Json
from pytest_agentv.models.masking.secret_rule import SHORTEST_SECRET, secrets_of
from pytest_agentv.models.masking.spellings import Spellings, load_whole

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
                load_whole()
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
