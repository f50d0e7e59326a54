"""Decides whether cases run: only on request, and which part of them on which machine."""

import hashlib
import json
import os
import unicodedata
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_agentv.cases.discovery import is_evals_folder
from pytest_agentv.errors import name_below
from pytest_agentv.model.base import counted
from pytest_agentv.model.options import RunOptions, Shard
from pytest_agentv.model.results import ShardFigures
from pytest_agentv.session.compat import TerminalReporter, named_arguments
from pytest_agentv.session.outcomes import is_evaluation
from pytest_agentv.targets.definitions import find_repo_root

# `agentv_run`: runs cases only on request, so that a bare `pytest` spends no money.

REASON: Final = "not asked for: --agentv-run asks for it"
"""Why a case is skipped."""

_WORKER_INPUT: Final = "agentv_named"


class Asking:
    """Tells whether the command line asks for a case."""

    def __init__(self, config: pytest.Config, options: RunOptions) -> None:
        self.is_for_all = options.run == "always" or bool(
            options.dry_run or options.eval_id or options.resume or options.rejudge or options.retry_errors
        )
        """Whether all cases run, because of the rule or because of an option that only evals have."""
        self.is_paid_only = options.run == "asked-if-paid"
        """Whether only cases that cost money need a request."""
        self.reason = f"{REASON} (agentv_run = {options.run})"
        named = _named_paths(config)
        self._files = {path for path in named if not path.is_dir()}
        self._folders = [path for path in named if path.is_dir() and is_evals_folder(path, config.rootpath)]
        self._others = [path for path in named if path.is_dir() and not is_evals_folder(path, config.rootpath)]
        """Named folders that request their evals only if they hold nothing else."""

    def learn(self, items: Sequence[pytest.Item], is_case: Callable[[pytest.Item], bool]) -> None:
        """Learn from the collected items which folders hold only evals."""
        foreign = {item.path for item in items if not is_case(item)}
        self._folders += (folder for folder in self._others if not any(folder in path.parents for path in foreign))
        self._others = []

    def names(self, path: Path) -> bool:
        """Whether the command line names a file, or a folder of evals that it is in."""
        return path in self._files or any(folder in path.parents for folder in self._folders)


def send_named(node: Any) -> None:
    """Pass the names of the command line to an xdist worker. All that a worker collects was named."""
    node.workerinput[_WORKER_INPUT] = json.dumps(list(map(str, _named_paths(node.config))))


def unasked_line(count: int, rule: str) -> str:
    """Return how to ask for the cases that were skipped."""
    cases = counted(count, "eval case was", "eval cases were")
    how = "--agentv-run, or their files or folders on the command line, asks for them"
    return f"{cases} skipped (agentv_run = {rule}): {how}"


def _named_paths(config: pytest.Config) -> tuple[Path, ...]:
    sent = getattr(config, "workerinput", {}).get(_WORKER_INPUT)
    if sent is not None:
        return tuple(map(Path, json.loads(sent)))
    folder = config.invocation_params.dir
    return tuple(Path(os.path.normpath(folder / word.partition("::")[0])) for word in named_arguments(config))


# `--agentv-shard`: each of several machines runs a part of the evaluations, chosen by the hashes of their names.

_OUTPUT: Final = "agentv_shard_left"
"""Key of a worker's output."""


class Sharding:
    """Leaves out the evaluations of other shards; registered in each process of such a run.

    Evaluations are the cases of eval files and the tests that evaluate. A shard without evaluations is a good run.
    """

    def __init__(self, config: pytest.Config, shard: Shard) -> None:
        self._config = config
        self._shard = shard
        self._left = 0
        """How many evaluations other shards run."""
        self._folders: dict[Path, Path] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, object, object]:
        done = yield
        if not self._config.pluginmanager.has_plugin("agentv-session"):  # the session shards after its own selection
            self.divide(items, ())
        return done

    def divide(self, items: list[pytest.Item], collected: Sequence[pytest.Item]) -> ShardFigures:
        """Remove the evaluations of other shards from `items`. Returns the shard's figures for each result.

        Args:
            items: The items that all other options left.
            collected: All cases, before any selection.
        """
        own: list[pytest.Item] = []
        others: list[pytest.Item] = []
        for item in items:
            (own if self._is_own(item) else others).append(item)
        cases, total = (sum(map(_has_result, some)) for some in (own, items))
        self._left += len(others)
        if others:
            self._config.hook.pytest_deselected(items=others)
        items[:] = own
        return ShardFigures(self._shard.index, self._shard.count, cases, total, self._hash_suite(collected))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Note how many items a worker left out. All workers collect the same items."""
        self._left = max(self._left, getattr(node, "workeroutput", {}).get(_OUTPUT, 0))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[_OUTPUT] = self._left
        elif exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._left:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if self._left:
            evaluations = counted(self._left, "evaluation is", "evaluations are")
            terminalreporter.write_line(f"Shard {self._shard}: {evaluations} left to other shards")

    def _is_own(self, item: pytest.Item) -> bool:
        return not is_evaluation(item) or shard_of(self._name(item), self._shard.count) == self._shard.index

    def _name(self, item: pytest.Item) -> str:
        """Return a name that is the same on each machine. A node id depends on where pytest was started."""
        chain = item.listchain()
        depth = max((place for place, node in enumerate(chain) if isinstance(node, pytest.File)), default=-1)
        within = "::".join(node.name for node in chain[depth + 1 :])
        return unicodedata.normalize("NFC", f"{self._file_name(item.path)}::{within}")

    def _file_name(self, path: Path) -> str:
        """Return a path relative to its repository, or to pytest's root directory outside of a repository."""
        folder = path.parent
        if folder not in self._folders:
            root = find_repo_root(folder)
            self._folders[folder] = root if (root / ".git").exists() else self._config.rootpath
        return name_below(path, self._folders[folder])

    def _hash_suite(self, cases: Iterable[pytest.Item]) -> str:
        names = sorted(map(self._name, cases))
        paths = set[Path]()
        for item in cases:
            paths.add(item.path)
            row = item.entry.row if hasattr(item, "entry") else None
            if row is not None and row.table.function is None:
                paths.add(row.table.path)
        files = {self._file_name(path): path for path in paths}
        digest = hashlib.sha256("\n".join(names).encode("utf-8", "surrogatepass"))
        for name in sorted(files):
            digest.update(files[name].read_bytes())
        return digest.hexdigest()[:16]


def shard_of(name: str, count: int) -> int:
    """Return the shard of an evaluation, from 1 to `count`. It depends on the name alone."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) % count + 1


def _has_result(item: pytest.Item) -> bool:
    """Whether an item must have a result: it is a case, and no mark skips it."""
    return hasattr(item, "entry") and item.get_closest_marker("skip") is None
