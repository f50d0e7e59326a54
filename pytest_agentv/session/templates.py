"""Finds the folders of workspaces before pytest collects: tests in there are no tests of the project."""

import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from pytest_agentv.errors import SourceError
from pytest_agentv.session.options import eval_globs

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
