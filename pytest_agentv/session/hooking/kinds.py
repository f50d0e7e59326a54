"""The kinds of providers and evaluators that plugins and conftest files add."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.errors import HookError
from pytest_agentv.models.kind_table import merge_kinds
from pytest_agentv.runtime.user_errors import user_traceback
from pytest_agentv.session.hooking.user_hooks import FOREIGN_FOLDERS, is_interrupt


class HookedKinds(Mapping[str, Any]):
    """Kinds by name. Calls the hooks when the first case runs, because all conftest files are loaded then."""

    def __init__(self, name: str, ask: Callable[[], Sequence[object]]) -> None:
        self._name = name
        self._ask = ask

    @cached_property
    def _kinds(self) -> dict[str, Any]:
        """Return all kinds by name. The nearest conftest answers first, and wins. Raises `HookError`."""
        try:
            found = self._ask()
        except BaseException as error:
            if is_interrupt(error):
                raise
            raise HookError(f"{self._name} raised {user_traceback(error, *FOREIGN_FOLDERS)}", "crash") from error
        try:
            return merge_kinds(found)
        except ValueError as error:
            raise HookError(f"{self._name}: {error}", "config") from error

    def __getitem__(self, name: str) -> Any:
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


class FolderKinds:
    """The kinds of each folder. If two conftest files add the same name, the file above the folder counts."""

    def __init__(self, config: pytest.Config, hook: str) -> None:
        self._config = config
        self._hook = hook
        self._kinds: dict[tuple[str, ...], HookedKinds] = {}
        """By the plugins and conftest files that apply to a folder."""
        self._folders: dict[Path, HookedKinds] = {}

    def __call__(self, folder: Path) -> HookedKinds:
        """Return the kinds of a folder: the same object for folders below the same conftest files."""
        if folder not in self._folders:
            session: Any = self._config.pluginmanager.get_plugin("session")
            near, everywhere = (
                getattr(hooks, self._hook) for hooks in (session.gethookproxy(folder), self._config.hook)
            )
            key = tuple(each.plugin_name for each in near.get_hookimpls())
            ask = lambda: [*near(), *everywhere()]  # noqa: E731 - the first answer wins
            self._folders[folder] = self._kinds.setdefault(key, HookedKinds(self._hook, ask))
        return self._folders[folder]
