"""Finds out whether a run left out evaluations: an incomplete run gets no verdict."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from pytest_agentv.cli.inputs import walk
from pytest_agentv.errors import AgentvError
from pytest_agentv.loading.files.discovery import SUFFIXES, is_eval_file
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


def tags_of(node_ids: Iterable[str], root: Path) -> set[str]:
    """Return the tags of the items' eval files. A file that cannot be read reports an error of its own."""
    return _tags(root / name for name in _eval_files(node_ids))


def uncollected_tags(config: pytest.Config, node_ids: Iterable[str]) -> set[str]:
    """Return the tags of the eval files below the root directory that were not collected. Reads all of them."""
    root, globs = config.rootpath, eval_globs(config)
    collected = {root / name for name in _eval_files(node_ids)}
    files = (path for path in walk(root) if is_eval_file(path, root=root, is_named=False, globs=globs))
    return _tags(path for path in files if path not in collected)


def _eval_files(node_ids: Iterable[str]) -> set[str]:
    return {name for node_id in node_ids if Path(name := node_id.partition("::")[0]).suffix in SUFFIXES}


def _tags(files: Iterable[Path]) -> set[str]:
    tags: set[str] = set()
    for path in files:
        with suppress(AgentvError, OSError):
            suite = read_suite(path)
            tags.update(tag for entry in suite.entries for tag in suite.tags(entry))
    return tags
