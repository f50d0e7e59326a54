"""Finds the kinds of evaluators and providers that a project adds in its conftest files and plugins."""

import io
import os
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

from pytest_agentv.files.problems import Problem
from pytest_agentv.model.kind_table import merge_kinds
from pytest_agentv.runtime.user_code import describe_error

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
        error: BaseException | None = None
        said = io.StringIO()
        arguments = ["-p", "no:cacheprovider", "-o", "addopts=", *map(str, self._folders)]
        environment = os.environ.pop("PYTEST_ADDOPTS", None)
        try:
            with redirect_stdout(said), redirect_stderr(said):
                pytest.main(arguments, plugins=[asker])
        except SystemExit as exit_:  # a conftest may raise it when it is imported
            error = exit_
        finally:
            if environment is not None:
                os.environ["PYTEST_ADDOPTS"] = environment
        error = error or asker.error
        if error or not asker.found:
            self._note_fault(error, said.getvalue())
        return asker.found

    def _note_fault(self, error: BaseException | None, said: str) -> None:
        """Note what an error of users' code, or what pytest said instead of calling our plugin."""
        if error is None:
            reason = said.strip().rpartition("\n")[2].removeprefix("E  ").strip() or "pytest could not be started"
            named = re.search(r"while loading conftest '(.+?)'", said)
            path, line = (None if named is None else Path(named[1])), None
        else:
            reason = " ".join(describe_error(error).split())
            frames = reversed(traceback.extract_tb(error.__traceback__))
            places = ((Path(frame.filename), frame.lineno) for frame in frames)
            path, line = next((place for place in places if place[0].name == "conftest.py"), (None, None))
        if path is None:
            path = (self._folders[0] if self._folders else Path.cwd()) / "conftest.py"
        message = f"kinds of conftest files are not known: {reason}"
        # A warning: files may be validated where the application and its dependencies are not installed.
        self.problems.append(Problem(path, line, "", message, level="warning"))


class _Asker:
    """A pytest plugin that calls our hooks instead of running tests."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.found: dict[_Key, Mapping[str, Any]] = {}
        self.error: BaseException | None = None
        self._folders = folders

    def pytest_cmdline_main(self, config: Any) -> int:
        import pytest  # noqa: PLC0415 - it runs

        try:
            session = pytest.Session.from_config(config)
            for hook in _HOOKS:
                everywhere = getattr(config.hook, hook)()
                self.found[hook, None] = merge_kinds(everywhere)
                for folder in self._folders:
                    near = getattr(session.gethookproxy(folder), hook)()
                    self.found[hook, folder] = merge_kinds([*near, *everywhere])
        except (Exception, SystemExit) as error:  # noqa: BLE001 - hooks are code of the user's
            self.error = error
        return 0


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
