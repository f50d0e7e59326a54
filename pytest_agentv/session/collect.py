"""From a file to a collector, and the folders in which no files are collected. Loaded in every pytest run."""

import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.errors import SourceError
from pytest_agentv.session.compat import obstacle
from pytest_agentv.session.options import eval_globs

_IS_TOLD = pytest.StashKey[bool]()


class UnsupportedFile(pytest.File):
    """An eval file in a process that cannot run evals."""

    def __init__(self, *, reason: str, **kwargs: Any) -> None:
        self._reason = reason
        super().__init__(**kwargs)

    def collect(self) -> Iterable[pytest.Item]:
        raise self.CollectError(self._reason)


def collect_file(path: Path, parent: pytest.Collector, *, is_claimed: bool) -> pytest.Collector | None:
    """Return the collector of an eval file; None for a file of others. For these, none of our modules are loaded.

    A file that is named on the command line gets a collector too, unless another plugin collects it (`is_claimed`).
    It says what is wrong with the file, instead of pytest's "not found".
    """
    from pytest_agentv.cases.discovery import is_eval_file, left_out  # noqa: PLC0415 - for runs that collect YAML files

    config, is_named = parent.config, parent.session.isinitpath(path)
    globs, root = eval_globs(config), config.rootpath
    problem = None
    if not is_eval_file(path, root=root, is_named=is_named, globs=globs):
        if is_claimed or obstacle():
            return None
        if not is_named:
            problem = left_out(path, root=root, globs=globs)
            if problem is None:
                return None
        elif path.suffix == ".jsonl":  # each line would be a broken case: one error for the file is clearer
            from pytest_agentv.cases.suites import dataset_fault  # noqa: PLC0415 - rarely needed

            problem = dataset_fault(path)
    if reason := obstacle():
        if config.stash.get(_IS_TOLD, False):  # one error is enough for all eval files
            return None
        config.stash[_IS_TOLD] = True
        return UnsupportedFile.from_parent(parent, path=path, reason=reason)
    from pytest_agentv.session.eval_files import EvalFile, LeftOutFile  # noqa: PLC0415 - for runs that have evals

    if problem is not None:
        return LeftOutFile.from_parent(parent, path=path, problem=problem)
    return EvalFile.from_parent(parent, path=path)


# Finds the folders of workspaces before pytest collects: tests in there are no tests of the project.

_FOLDERS = pytest.StashKey[frozenset[str]]()
_NAMED = re.compile(rb"""["']?(?:workspace|environment)["']?[ \t]*:""")
_FOLDER_KEYS = ("from", "template", "workdir", "overlay", "hidden")


def is_of_workspace(path: Path, config: pytest.Config) -> bool:
    """Whether a folder is what workspaces are copied from, or is copied over them. The first call looks for them."""
    if _FOLDERS not in config.stash:
        named = [config.invocation_params.dir / str(arg).partition("::")[0] for arg in config.args]
        found = {folder for root in named for file in _eval_files(root, config) for folder in _folders(file)}
        given = {os.path.realpath(path) for path in named}
        own = {name for path in given for name in (path, *map(str, Path(path).parents))}  # asked for by the user
        config.stash[_FOLDERS] = frozenset(found - own)
    found_ones = config.stash[_FOLDERS]
    return bool(found_ones) and os.path.realpath(path) in found_ones


def _eval_files(root: Path, config: pytest.Config) -> Iterator[Path]:
    """Yield the files below a folder that are named like eval files or lie in a folder `evals`."""
    skipped, globs = config.getini("norecursedirs"), eval_globs(config)
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if "." not in name and not _fits(name, skipped)]
        for name in names:
            if name.endswith((".yaml", ".yml")):
                path = Path(folder, name)
                below = str(path).removeprefix(f"{config.rootpath}{os.sep}")
                is_named = ".eval." in name or "evals" in path.parent.parts or _fits(below, globs)
                if is_named and path.is_file():  # reading a pipe would block
                    yield path


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _folders(file: Path) -> Iterator[str]:
    try:
        content = file.read_bytes()
    except OSError:
        return
    if _NAMED.search(content) is None:
        return
    from pytest_agentv.files.source import read_yaml  # noqa: PLC0415 - the parser, for few runs

    try:
        values = [read_yaml(file).value]
    except SourceError:  # its collection says what is wrong
        return
    while values:
        value = values.pop()
        if isinstance(value, list):
            values += value
        elif isinstance(value, dict):
            values += value.values()
            for key in ("workspace", "environment"):
                for name in _names(value.get(key)):
                    if "{{" not in name and "://" not in name:
                        yield os.path.realpath(file.parent / name)


def _names(written: object) -> Iterator[str]:
    if isinstance(written, str):
        yield written
    elif isinstance(written, dict):
        for key in _FOLDER_KEYS:
            value = written.get(key)
            yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str))
