"""The part of each process in the verdict: what was left out, marked, or looks broken."""

import os
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from functools import cached_property
from glob import iglob
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_agentv.cases.discovery import SUFFIXES, is_eval_file, walk
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.errors import AgentvError
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.baseline import Baseline, read_baseline
from pytest_agentv.reports.gates import parse_tag_gates, suspects_of
from pytest_agentv.reports.judged_cases import JudgedCase, cases_of_run, item_name
from pytest_agentv.session.choosing import REASON as NOT_ASKED
from pytest_agentv.session.options import eval_globs
from pytest_agentv.session.outcomes import EvalFailed, is_evaluation
from pytest_agentv.session.user_hooks import bound_by

# Finds out whether a run left out evaluations: an incomplete run gets no verdict.

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
    """Return the eval files that `--agentv-fail-under` lacks for a verdict. Folders that are named are a whole."""
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


# The part of each process in the verdict: counts deselected cases, and shows failing ones as XFAIL.

REASON: Final = "judged with the run"
CASE: Final = "agentv_case"
"""The attribute of the report of a skipped case: its id, and the target of its combination."""
BOUND: Final = "agentv_bound"
"""The attribute of the report of an item with fixtures or hooks around it. Without them, it would be another case."""

RECORDED: Final = "agentv_recorded"
"""The attribute of the report of a case of an eval file that has a result."""


class JudgedCases:
    """Registered in each process that runs cases, where the run as a whole is judged."""

    def __init__(self, config: pytest.Config, options: RunOptions) -> None:
        self._config = config
        self._options = options
        self._leaves_cases = options.gate in ("run", "strict") and not options.dry_run
        gates = parse_tag_gates(options.gates)
        self._critical = frozenset(gate.tag for gate in gates if gate.tier == "critical")

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        note_deselected(self._config, items)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[DESELECTED_OUTPUT] = self._config.stash.get(DESELECTED, 0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Show a failed case as XFAIL where the verdict on the run covers it."""
        report = yield
        if isinstance(item, pytest.Function) and bound_by(item) is not None:
            setattr(report, BOUND, True)
        if report.skipped and hasattr(item, "entry"):
            combination = item.entry.combination
            setattr(report, CASE, [item.entry.eval_id, None if combination is None else combination.target])
        if hasattr(item, "entry") and getattr(item, "result", None) is not None:
            setattr(report, RECORDED, True)
        is_failed = report.failed and call.excinfo is not None and isinstance(call.excinfo.value, EvalFailed)
        if is_failed and self._covers(getattr(item, "result", None)):
            report.outcome = "skipped"
            report.wasxfail = REASON
        return report

    def _covers(self, result: EvalResult | None) -> bool:
        if not self._leaves_cases or result is None or result.required:
            return False
        if narrowed_by(self._config, self._options) is not None:
            return False  # there will be no verdict
        return self._covers_all or not self._tags.isdisjoint(result.tags or ())

    @cached_property
    def _covers_all(self) -> bool:
        options = self._options
        return options.baseline is not None or (options.fail_under is not None and not left_out_of_rate(self._config))

    @cached_property
    def _tags(self) -> frozenset[str]:
        """The tags whose gates get a verdict."""
        return self._critical - left_out_tags(self._config, self._critical).keys() if self._critical else self._critical


# Decides which cases look broken while their fixtures still exist. At the end of the run they are torn down.

_KEY: Final = pytest.StashKey["Suspicion"]()


class Suspicion:
    """Compares results with the baseline, one at a time."""

    def __init__(self, config: pytest.Config, path: Path, confirm: int) -> None:
        self._config = config
        self._confirm = confirm
        self._baseline = Baseline(())
        with suppress(AgentvError):  # a worker on another machine may not have the file
            self._baseline = read_baseline(path)
        self._known = {case.key: case for case in self._baseline.cases}

    def answers(self, result: EvalResult) -> int:
        """Return how many fresh answers a case is to get; 0: none."""
        [case] = cases_of_run([result])
        # Among others of its id, a case has the name of its item.
        cases = [each for each in (case.replace(name=item_name(case)), case) if each.key in self._known]
        if not cases:
            return 0
        alone = self._baseline.replace(cases=(self._known[cases[0].key],))
        return next((count for _, count in suspects_of(cases[:1], alone, self._confirm, pairs=len(self._known))), 0)


def fresh_answers(config: pytest.Config, options: RunOptions, result: EvalResult, most_failures: int) -> int:
    """Return how many fresh answers a case gets at once; 0: none, because it does not look broken or nobody will judge.

    Args:
        config: Of the process that runs the case.
        options: Those of the run.
        result: The result of the case.
        most_failures: How many failures end the run; 0: any number may fail.
    """
    if options.baseline is None or not options.confirm or options.update_baseline is not None or options.dry_run:
        return 0
    if narrowed_by(config, options) is not None or config.getoption("reruns", 0):
        return 0
    is_left = options.gate in ("run", "strict") and not result.required
    if most_failures and result.status != "pass" and not is_left:
        return 0  # the run may end with this failure
    if _KEY not in config.stash:
        config.stash[_KEY] = Suspicion(config, options.baseline, options.confirm)
    return config.stash[_KEY].answers(result)


# Records why items have no result: skipped, expected to fail, or ended early.

_Key = tuple[str, str | None]


class MarkedItems:
    """The reports of items that have no verdict of their own, in the process that owns the terminal."""

    def __init__(self) -> None:
        self.expected: Final[set[str]] = set()
        """Node ids of items that failed as their `xfail` mark expects."""
        self.judged_with_run: Final[set[str]] = set()
        """Node ids of items that failed and are judged with the run."""
        self.bound: Final[set[str]] = set()
        """Node ids of items whose cases cannot be asked again: fixtures or hooks of a conftest were around them."""
        self.unasked = 0
        """Cases that were skipped because nobody asked for them."""
        self._skipped: set[_Key] = set()

    def note(self, report: Any) -> None:
        """Note the report of a phase of an item."""
        if getattr(report, BOUND, False):
            self.bound.add(report.nodeid)
        if (report.failed or hasattr(report, "wasxfail")) and not hasattr(report, RECORDED):
            self._skipped.add((report.nodeid, None))  # a test that ends early never reaches its later cases
        if not report.skipped:
            return
        if hasattr(report, "wasxfail"):
            (self.judged_with_run if report.wasxfail == REASON else self.expected).add(report.nodeid)
        elif NOT_ASKED in str(report.longrepr):
            self.unasked += 1
        else:
            eval_id, target = getattr(report, CASE, (None, None))
            name = report.nodeid if eval_id is None else f"{report.nodeid.partition('::')[0]}::{eval_id}"
            self._skipped.add((name, target))

    def skipped_of(self, known: Iterable[JudgedCase], run: Iterable[JudgedCase]) -> tuple[JudgedCase, ...]:
        """Return the cases of a baseline without a result in this run: their items were skipped or ended early."""
        found = {case.key for case in run}
        return tuple(
            case
            for case in known
            if case.key not in found
            and not self._skipped.isdisjoint({(case.name, None), (case.name, case.target), (case.node_id, None)})
        )
