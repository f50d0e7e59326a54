"""Leaves out the items that the options do not let run, or that cost money and that nobody asked for."""

import hashlib
import unicodedata
import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_agentv.cases.discovery import is_evals_folder
from pytest_agentv.cases.entries import SuiteSource, sample
from pytest_agentv.engine.judges import names_asked
from pytest_agentv.errors import AgentvError, name_below
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.base import counted
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.options import RunOptions, Shard
from pytest_agentv.model.results import ShardFigures
from pytest_agentv.session.compat import TerminalReporter
from pytest_agentv.session.identity import ResumedFile
from pytest_agentv.session.outcomes import NOT_ASKED, AgentvWarning, is_evaluation
from pytest_agentv.store.writers import stored_name
from pytest_agentv.targets.definitions import TargetsFile, find_repo_root

# Leaves out the items that the options do not let run: `--agentv-eval-id`, `--agentv-retry-errors`.


def keep(config: pytest.Config, items: list[pytest.Item], selected: Collection[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item not in selected])
    items[:] = [item for item in items if item in selected]


def select_ids(config: pytest.Config, items: list[pytest.Item], wanted: Collection[str]) -> None:
    """Keep the cases of eval files that have one of the wanted ids, and no tests."""
    cases = {item: entry.ids for item in items if (entry := getattr(item, "entry", None)) is not None}
    known = {eval_id for ids in cases.values() for eval_id in ids if eval_id}
    for eval_id in wanted:
        if eval_id not in known:
            hint = did_you_mean(eval_id, known)
            text = f"--agentv-eval-id={eval_id}: no collected case has this id{f' ({hint})' if hint else ''}"
            warnings.warn(text, AgentvWarning, stacklevel=1)
    keep(config, items, {item for item, ids in cases.items() if any(each in wanted for each in ids)})


def select_retried(
    config: pytest.Config,
    items: list[pytest.Item],
    resumed: ResumedFile,
    eval_file: Callable[[SuiteSource], str] = lambda suite: str(suite.path),
) -> None:
    """Keep the cases and tests that broke in an earlier run. `eval_file` returns the path of a file as in results.

    A case is known by its file and id as well, because its node id depends on the root directory.
    """
    broken, cases, unbroken = map(frozenset, (resumed.broken_items, resumed.broken, resumed.unbroken))

    def is_broken(item: Any) -> bool:
        node_id, entry = stored_name(item.nodeid), getattr(item, "entry", None)
        case = None if entry is None else (eval_file(item.suite), stored_name(entry.eval_id or ""))
        return node_id in broken or (case in cases and node_id not in unbroken)

    keep(config, items, set(filter(is_broken, items)))


# `--agentv-sample`: some of the selected cases, the same ones in each process and in each run.


def select_sample(config: pytest.Config, items: list[pytest.Item], size: int) -> None:
    """Keep a sample of the cases of eval files, and all other items."""
    cases = [item for item in items if hasattr(item, "entry")]
    chosen = sample([item.nodeid for item in cases], size)
    unwanted = {case for index, case in enumerate(cases) if index not in chosen}
    keep(config, items, {item for item in items if item not in unwanted})


# Runs cases only on request (`agentv_run`), so that a bare `pytest` spends no money.


class Asking:
    """Tells whether the command line asks for a case."""

    def __init__(self, config: pytest.Config, options: RunOptions, named: Sequence[Path]) -> None:
        self._is_for_all = options.run == "always" or bool(
            options.dry_run or options.eval_id or options.resume or options.rejudge or options.retry_errors
        )
        """Whether all cases run, because of the rule or because of an option that only evals have."""
        self.is_paid_only = options.run == "asked-if-paid"
        """Whether only cases that cost money need a request."""
        self.reason = f"{NOT_ASKED} (agentv_run = {options.run})"
        self._files = {path for path in named if not path.is_dir()}
        self._folders = [path for path in named if path.is_dir() and is_evals_folder(path, config.rootpath)]
        self._others = [path for path in named if path.is_dir() and not is_evals_folder(path, config.rootpath)]
        """Named folders that request their evals only if they hold nothing else."""

    def learn(self, items: Sequence[pytest.Item], is_case: Callable[[pytest.Item], bool]) -> None:
        """Learn from the collected items which folders hold only evals."""
        foreign = {item.path for item in items if not is_case(item)}
        self._folders += (folder for folder in self._others if not any(folder in path.parents for path in foreign))
        self._others = []

    def refuses(self, path: Path, is_paid: Callable[[], bool]) -> bool:
        """Whether nobody asked for a case of a file, neither by its name nor by that of a folder of evals."""
        if self._is_for_all or path in self._files or any(folder in path.parents for folder in self._folders):
            return False
        return not self.is_paid_only or is_paid()


# Decides which cases cost money: those of models and coding agents, and those that a model helps to judge.


class Spending:
    """Reads targets files without variables. A target that cannot be read costs nothing: its cases become errors."""

    def __init__(self, read_targets: Callable[[Path], TargetsFile]) -> None:
        self._read_targets = read_targets
        self._files: dict[Path, TargetsFile | None] = {}

    def is_paid(self, case: EvalCase, name: str, own_fixtures: Collection[str], judge: str | None) -> bool:
        """Whether a case costs money: to ask its target (`name`) or its user, or to judge the answer.

        `own_fixtures` stand in for targets. `judge` is None where the target names its own.
        """
        asked = names_asked(case, name, judge, self._file(case.folder), own_fixtures)
        return any(self.is_paid_target(case.folder, each) for each in asked)

    def is_paid_target(self, folder: Path, name: str) -> bool:
        """Whether a target costs money, by its name in the eval files of a folder."""
        with suppress(AgentvError):
            if (file := self._file(folder)) is not None:
                return bool(getattr(file.kinds.table.get(file.find(name).kind), "costs_money", False))
        return False

    def _file(self, folder: Path) -> TargetsFile | None:
        if folder not in self._files:
            self._files[folder] = None
            with suppress(AgentvError):
                self._files[folder] = self._read_targets(folder)
        return self._files[folder]


# `--agentv-shard`: each of several machines runs a part of the evaluations, chosen by the hashes of their names.

_OUTPUT: Final = "agentv_shard_left"


class Sharding:
    """Leaves out the evaluations of other shards; registered in each process of such a run.

    Evaluations are the cases of eval files and the tests that evaluate. A shard without evaluations is a good run.
    """

    def __init__(self, config: pytest.Config, shard: Shard) -> None:
        self._config = config
        self._shard = shard
        self._left = 0
        self._folders: dict[Path, Path] = {}

    def pytest_report_header(self) -> str:
        return f"agentv: shard {self._shard} of the evaluations; other tests run in each shard"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, object, object]:
        done = yield
        if not self._config.pluginmanager.has_plugin("agentv-session"):  # the session shards after its own selection
            self.divide(items, ())
        return done

    def divide(self, items: list[pytest.Item], collected: Sequence[pytest.Item]) -> ShardFigures:
        """Remove the evaluations of other shards from `items`. Returns the shard's figures for each result.

        `collected` are all cases, before any selection.
        """
        own: list[pytest.Item] = []
        others: list[pytest.Item] = []
        for item in items:
            is_own = not is_evaluation(item) or shard_of(self._name(item), self._shard.count) == self._shard.index
            (own if is_own else others).append(item)
        # Those that must have a result: cases that no mark skips.
        cases, total = (
            sum(hasattr(item, "entry") and item.get_closest_marker("skip") is None for item in some)
            for some in (own, items)
        )
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
