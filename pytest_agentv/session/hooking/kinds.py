"""The kinds of providers and evaluators that plugins and conftest files add."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

Factory = TypeVar("Factory")


class HookedKinds(Mapping[str, Factory]):
    """Kinds by name; the hooks are asked when a first case runs, for only then all conftest files are loaded."""

    def __init__(self, ask: Callable[[], Sequence[Any]]) -> None:
        self._ask = ask

    @cached_property
    def _kinds(self) -> dict[str, Factory]:
        merged: dict[str, Factory] = {}
        for kinds in reversed(self._ask()):  # the nearest conftest answers first, and wins
            merged |= kinds if isinstance(kinds, Mapping) else {kind.kind: kind for kind in kinds}
        return merged

    def __getitem__(self, name: str) -> Factory:
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)
