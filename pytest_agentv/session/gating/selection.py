"""Finds out whether a run left out evaluations: an incomplete run gets no verdict."""

import os
from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatch
from glob import iglob
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from pytest_agentv.errors import AgentvError
from pytest_agentv.loading.files.discovery import SUFFIXES, is_eval_file, walk
from pytest_agentv.loading.files.suites import read_suite
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.session.names import is_evaluation
from pytest_agentv.session.options import eval_globs

DESELECTED: Final = pytest.StashKey[int]()
"""How many evaluations this process collected and left out."""
DESELECTED_OUTPUT: Final = "agentv_deselected"
"""The same number, as a key of a worker's output."""
MAY_LEAVE_OUT_NONE: Final = ("--lf", "--stepwise")
"""Options that silently leave out whole files, or nothing if no collected item failed last time."""


def note_deselected(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Count the evaluations among items that are left out."""
    count = sum(is_evaluation(item) for item in items)
    config.stash[DESELECTED] = config.stash.get(DESELECTED, 0) + count


def narrowed_by(config: pytest.Config, options: RunOptions) -> str | None:
    """Return the option that leaves cases out; None: no option does, as far as this process knows."""
    if options.shard is not None and options.shard.count > 1:
        return f"--agentv-shard={options.shard}"
    if config.stash.get(DESELECTED, 0):
        return "some were deselected"
    return narrowing_option(config, options)


def narrowing_option(config: pytest.Config, options: RunOptions) -> str | None:
    """Return the option that silently leaves cases out."""
    given = {
        "--lf": config.getoption("lf", False),
        "--stepwise": config.getoption("stepwise", False),
        "--agentv-eval-id": options.eval_id,
        "--agentv-retry-errors": options.retries_only,
        "--agentv-shard": options.shard is not None and options.shard.count > 1,
        "a single case on the command line": any("::" in str(arg) for arg in config.args),
    }
    return next((name for name, value in given.items() if value), None)


def tags_of(node_ids: Iterable[str], root: Path, wanted: Collection[str]) -> set[str]:
    """Return the tags of the items' eval files. A file whose tags are not known may have all that are wanted."""
    return set().union(*(_tags(root / name, wanted) for name in _eval_files(node_ids)))


def uncollected_tags(config: pytest.Config, node_ids: Iterable[str]) -> set[str]:
    """Return the tags of the eval files below the root directory that were not collected. Reads all of them."""
    root = config.rootpath
    collected = {root / name for name in _eval_files(node_ids)}
    return set().union(*(_tags(path) for path in _files_below(root, config) if path not in collected))


def left_out_files(config: pytest.Config) -> tuple[Path, ...]:
    """Return the eval files that a run without paths would collect, and the paths of this run leave out.

    Options alone decide, so that each process of a run finds the same ones. What they ignore is no part of the whole.
    """
    named = _named(config)
    root, patterns = config.rootpath, config.getini("testpaths")
    found = (path for pattern in patterns for path in iglob(str(root / pattern), recursive=True))  # noqa: PTH207 - as pytest
    whole = [_absolute(root, path) for path in found] or [root]
    if all(any(path.is_relative_to(each) for each in named) for path in whole):
        return ()  # nothing is searched in most runs
    files = {file for path in whole for file in _files_below(path, config) if not _is_ignored(file, path, config)}
    return tuple(sorted(file for file in files if not any(file.is_relative_to(each) for each in named)))


def left_out_of_rate(config: pytest.Config) -> tuple[Path, ...]:
    """Return the eval files that `--agentv-min-rate` lacks for a verdict. Folders that are named are a whole."""
    return () if all(map(Path.is_dir, _named(config))) else left_out_files(config)


def left_out_tags(config: pytest.Config, wanted: Collection[str]) -> dict[str, Path]:
    """Return the tags of the files that the paths of the run leave out, each with such a file.

    A file whose tags are not known may have all that are wanted.
    """
    return {tag: file for file in reversed(left_out_files(config)) for tag in _tags(file, wanted)}


def _named(config: pytest.Config) -> list[Path]:
    """Return the folders and files of the command line, or those that stand for an empty one."""
    return [_absolute(config.invocation_params.dir, str(arg).partition("::")[0]) for arg in config.args]


def _absolute(folder: Path, path: str | Path) -> Path:
    return Path(os.path.normpath(folder / path))


def _files_below(path: Path, config: pytest.Config) -> Iterator[Path]:
    """Yield the eval files in a folder."""
    root, globs = config.rootpath, eval_globs(config)
    files = (path,) if path.is_file() else walk(path)
    yield from (file for file in files if is_eval_file(file, root=root, is_named=False, globs=globs))


def _is_ignored(file: Path, below: Path, config: pytest.Config) -> bool:
    """Whether pytest does not enter a folder of a file, or ignores it."""
    given = (config.getoption(name, None) or () for name in ("ignore", "ignore_glob"))
    ignored = [str(_absolute(config.invocation_params.dir, each)) for each in chain(*given)]
    for plugin in config.pluginmanager.get_plugins():  # conftest files, as far as they are loaded
        named = (getattr(plugin, name, None) or () for name in ("collect_ignore", "collect_ignore_glob"))
        ignored += [str(_absolute(Path(plugin.__file__).parent, each)) for each in chain(*named)]
    entered = [each for each in file.parents if each != below and each.is_relative_to(below)]
    skips = config.getini("norecursedirs")
    return any(_matches(folder, pattern) for folder in entered for pattern in skips) or any(
        fnmatch(str(each), pattern) for each in (file, *file.parents) for pattern in ignored
    )


def _matches(folder: Path, pattern: str) -> bool:
    """Whether a pattern of `norecursedirs` is that of a folder: of its name or, with a slash, of its path."""
    if "/" not in pattern:
        return fnmatch(folder.name, pattern)
    return fnmatch(str(folder), pattern if pattern.startswith("/") else f"*/{pattern}")


def _eval_files(node_ids: Iterable[str]) -> set[str]:
    return {name for node_id in node_ids if Path(name := node_id.partition("::")[0]).suffix in SUFFIXES}


def _tags(path: Path, unknown: Collection[str] = ()) -> set[str]:
    """Return the tags of an eval file; `unknown` if it cannot be read, or if a function makes its cases."""
    try:
        suite = read_suite(path)
    except (AgentvError, OSError):
        return set(unknown)
    return {tag for entry in suite.entries for tag in suite.tags(entry)}
