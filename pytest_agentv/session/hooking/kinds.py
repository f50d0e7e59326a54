"""The kinds of providers and evaluators that plugins and conftest files add."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from pytest_agentv.errors import HookError
from pytest_agentv.models.kind_table import merge_kinds


class HookedKinds(Mapping[str, Any]):
    """Kinds by name. Calls the hooks when the first case runs, because all conftest files are loaded then."""

    def __init__(self, name: str, ask: Callable[[], Sequence[object]]) -> None:
        self._name = name
        self._ask = ask

    @cached_property
    def _kinds(self) -> dict[str, Any]:
        """The nearest conftest answers first, and wins. Raises `HookError`."""
        try:
            return merge_kinds(self._ask())
        except ValueError as error:
            raise HookError(f"{self._name}: {error}", "config") from error

    def __getitem__(self, name: str) -> Any:
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)
