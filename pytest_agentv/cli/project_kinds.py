"""Finds the kinds of evaluators and providers that a project adds in its conftest files and plugins."""

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.kind_table import merge_kinds

_Key: TypeAlias = tuple[str, Path | None]
"""A hook and a folder; None: wherever a conftest lies."""

_HOOKS: Final = ("pytest_agentv_evaluators", "pytest_agentv_providers")
_SIGNS: Final = (b"pytest_agentv_", b"pytest_plugins")
"""Texts in a conftest that may add kinds."""


class ProjectKinds:
    """Calls the hooks of a project for its kinds. pytest loads the conftest files but runs no test.

    Conftest files are user code. They are loaded only if one of them mentions our hooks, or if a file names a kind
    that is not built in, which a plugin may add.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.problems: list[Problem] = []
        """The faults that prevented the loading of conftest files."""
        self._folders = sorted({path.parent for path in files})

    def of(self, hook: str, built_in: Mapping[str, Any], named: Sequence[str] = ()) -> "Callable[[Path], LazyKinds]":
        """Return a function from a folder to the kinds of one hook. `named` kinds always count as kinds."""
        return lambda folder: LazyKinds(self, hook, built_in, named, folder)

    @cached_property
    def mentions_hooks(self) -> bool:
        """Whether a conftest beside the files, or above them, may add kinds."""
        folders = {folder for start in self._folders for folder in (start, *start.parents)}
        return any(any(sign in _read(folder / "conftest.py") for sign in _SIGNS) for folder in folders)

    def find(self, hook: str, folder: Path) -> Mapping[str, Any]:
        """Return the kinds of a hook for a folder. The conftest files above the folder win."""
        return self._found.get((hook, folder)) or self._found.get((hook, None)) or {}

    @cached_property
    def _found(self) -> "Mapping[_Key, Mapping[str, Any]]":
        import pytest  # noqa: PLC0415 - takes a fifth of a second

        asker = _Asker(self._folders)
        said = io.StringIO()
        arguments = ["-p", "no:cacheprovider", "-o", "addopts=", *map(str, self._folders)]
        environment = os.environ.pop("PYTEST_ADDOPTS", None)
        try:
            with redirect_stdout(said), redirect_stderr(said):
                pytest.main(arguments, plugins=[asker])
        finally:
            if environment is not None:
                os.environ["PYTEST_ADDOPTS"] = environment
        if asker.fault or not asker.found:
            reason = asker.fault or said.getvalue().strip().rpartition("\n")[2] or "pytest could not be started"
            folder = self._folders[0] if self._folders else Path.cwd()
            message = f"kinds of conftest files are not known: {reason}"
            self.problems.append(Problem(folder / "conftest.py", None, "", message, level="warning"))
        return asker.found


class _Asker:
    """A pytest plugin that calls our hooks instead of running tests."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.found: dict[_Key, Mapping[str, Any]] = {}
        self.fault = ""
        self._folders = folders

    def pytest_cmdline_main(self, config: Any) -> int:
        try:
            self._ask(config)
        except Exception as error:  # noqa: BLE001 - hooks are code of the user's
            self.fault = f"{type(error).__name__}: {error}"
        return 0

    def _ask(self, config: Any) -> None:
        import pytest  # noqa: PLC0415 - it runs

        session = pytest.Session.from_config(config)
        for hook in _HOOKS:
            everywhere = getattr(config.hook, hook)()
            self.found[hook, None] = merge_kinds(everywhere)
            for folder in self._folders:
                near = getattr(session.gethookproxy(folder), hook)()
                self.found[hook, folder] = merge_kinds([*near, *everywhere])


# pluggy reads this mark. Importing pytest to set it would cost every `agentv` command a fifth of a second.
_Asker.pytest_cmdline_main.pytest_impl = {"tryfirst": True}  # type: ignore[attr-defined]


class LazyKinds(Mapping[str, Any]):
    """The kinds of one hook. Calls the hook only when its kinds may matter."""

    def __init__(
        self, project: ProjectKinds, hook: str, built_in: Mapping[str, Any], named: Sequence[str], folder: Path
    ) -> None:
        self._project = project
        self._folder = folder
        self._hook = hook
        self._built_in = built_in
        self._named = dict.fromkeys(named, _any_keys)

    @property
    def _kinds(self) -> Mapping[str, Any]:
        return {**self._named, **self._project.find(self._hook, self._folder)}

    def __getitem__(self, word: str) -> Any:
        if self._project.mentions_hooks or word not in {**self._built_in, **self._named}:
            return self._kinds[word]
        return self._named[word]

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.get(word) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds if self._project.mentions_hooks else self._named)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _any_keys(spec: object, services: object) -> object:
    """Replace the factory of a kind with unknown keys."""
    raise NotImplementedError


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""
