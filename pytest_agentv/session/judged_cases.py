"""The part of each process in the verdict: what was left out, marked, or looks broken."""

import os
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from glob import iglob
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_agentv.cases.discovery import is_eval_file, walk
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.errors import AgentvError
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.judged_cases import JudgedCase, cases_of_run, item_name
from pytest_agentv.reports.read import Baseline, read_baseline
from pytest_agentv.reports.verdict import parse_tag_gates, suspects_of
from pytest_agentv.session.options import eval_globs
from pytest_agentv.session.outcomes import EvalFailed, is_evaluation, may_be_eval

# Finds out whether a run left out evaluations: an incomplete run gets no verdict.

DESELECTED: Final = pytest.StashKey[int]()
"""How many evaluations this process collected and left out."""
DESELECTED_OUTPUT: Final = "agentv_deselected"
"""The same number, as a key of a worker's output."""
MAY_LEAVE_OUT_NONE: Final = ("--lf", "--stepwise")
"""Options that silently leave out whole files, or nothing if no collected item failed last time."""


def narrowed_by(config: pytest.Config, options: RunOptions) -> str | None:
    """Return the option that leaves cases out; None: no option does, as far as this process knows."""
    return narrowing_option(config, options) or ("some were deselected" if config.stash.get(DESELECTED, 0) else None)


def narrowing_option(config: pytest.Config, options: RunOptions) -> str | None:
    """Return the option that silently leaves cases out."""
    given = {
        "--lf": config.getoption("lf", False),
        "--stepwise": config.getoption("stepwise", False),
        "--agentv-eval-id": options.eval_id,
        "--agentv-retry-errors": options.retries_only,
        f"--agentv-shard={options.shard}": options.shard is not None and options.shard.count > 1,
        "a single case on the command line": any("::" in str(arg) for arg in config.args),
    }
    return next((name for name, value in given.items() if value), None)


def tags_of(node_ids: Iterable[str], root: Path, wanted: Collection[str]) -> set[str]:
    """Return the tags of the items' eval files."""
    files = {node_id.partition("::")[0] for node_id in node_ids if may_be_eval(node_id)}
    return set().union(*(_tags(root / name, wanted) for name in files))


def left_out_files(config: pytest.Config) -> tuple[Path, ...]:
    """Return the eval files that a run without paths would collect, and the paths of this run leave out.

    Options alone decide, so that each process of a run finds the same ones. What they ignore is no part of the whole.
    """
    named, root, globs = _named(config), config.rootpath, eval_globs(config)
    found = (
        path
        for pattern in config.getini("testpaths")
        for path in iglob(str(root / pattern), recursive=True)  # noqa: PTH207 - as pytest
    )
    whole = [Path(os.path.normpath(path)) for path in found] or [root]
    left = set[Path]()
    for path in whole:
        if any(path.is_relative_to(each) for each in named):
            continue  # nothing is searched in most runs
        for file in (path,) if path.is_file() else walk(path):
            is_left = not any(file.is_relative_to(each) for each in named)
            is_eval = is_left and is_eval_file(file, root=root, is_named=False, globs=globs)
            if is_eval:
                # pytest may not enter a folder of the file, or may ignore it.
                folders = (each for each in reversed(file.parents) if each != path and each.is_relative_to(path))
                entered = (*folders, file) if file != path else ()
                if not any(config.hook.pytest_ignore_collect(collection_path=each, config=config) for each in entered):
                    left.add(file)
    return tuple(sorted(left))


def left_out_of_rate(config: pytest.Config) -> tuple[Path, ...]:
    """Return the eval files that `--agentv-fail-under` lacks for a verdict. Folders that are named are a whole."""
    return () if all(map(Path.is_dir, _named(config))) else left_out_files(config)


def left_out_tags(config: pytest.Config, wanted: Collection[str]) -> dict[str, Path]:
    """Return the tags of the files that the paths of the run leave out, each with such a file."""
    return {tag: file for file in reversed(left_out_files(config)) for tag in _tags(file, wanted)}


def _named(config: pytest.Config) -> list[Path]:
    """Return the folders and files of the command line, or those that stand for an empty one."""
    folder = config.invocation_params.dir
    return [Path(os.path.normpath(folder / str(arg).partition("::")[0])) for arg in config.args]


def _tags(path: Path, wanted: Collection[str]) -> set[str]:
    """Return the tags of an eval file. One that cannot be read may have all that are wanted."""
    try:
        suite = read_suite(path)
    except (AgentvError, OSError):
        return set(wanted)
    return {tag for entry in suite.entries for tag in suite.tags(entry)}


# The part of each process in the verdict: counts deselected cases, and shows failing ones as XFAIL.

REASON: Final = "judged with the run"
CASE: Final = "agentv_case"
"""The attribute of the report of a skipped case: its id, and the target of its combination."""
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
        stash = self._config.stash
        stash[DESELECTED] = stash.get(DESELECTED, 0) + sum(map(is_evaluation, items))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[DESELECTED_OUTPUT] = self._config.stash.get(DESELECTED, 0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Show a failed case as XFAIL where the verdict on the run covers it."""
        report = yield
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
        options = self._options
        if narrowed_by(self._config, options) is not None:
            return False  # there will be no verdict
        has_rate = options.fail_under is not None and not self._left_out_of_rate
        return options.baseline is not None or has_rate or not self._tags.isdisjoint(result.tags or ())

    @cached_property
    def _left_out_of_rate(self) -> tuple[Path, ...]:
        return left_out_of_rate(self._config)

    @cached_property
    def _tags(self) -> frozenset[str]:
        """The tags whose gates get a verdict."""
        return self._critical - left_out_tags(self._config, self._critical).keys() if self._critical else self._critical

    def fresh_answers(self, result: EvalResult, most_failures: int) -> int:
        """Return how many fresh answers a case gets; 0: none, as it does not look broken or nobody will judge.

        Called while its fixtures still exist. `most_failures` end the run; 0: any number may fail.
        """
        options = self._options
        if options.baseline is None or not options.confirm or options.update_baseline is not None or options.dry_run:
            return 0
        if narrowed_by(self._config, options) is not None or self._config.getoption("reruns", 0):
            return 0
        is_left = options.gate in ("run", "strict") and not result.required
        if most_failures and result.status != "pass" and not is_left:
            return 0  # the run may end with this failure
        [case] = cases_of_run([result])
        for each in (case.replace(name=item_name(case)), case):  # among others of its id, it has the name of its item
            if each.key in self._known:
                alone = self._baseline.replace(cases=(self._known[each.key],))
                asked = suspects_of([each], alone, options.confirm, pairs=len(self._known))
                return next((count for _, count in asked), 0)
        return 0

    @cached_property
    def _baseline(self) -> Baseline:
        assert self._options.baseline is not None
        with suppress(AgentvError):  # a worker on another machine may not have the file
            return read_baseline(self._options.baseline)
        return Baseline(())

    @cached_property
    def _known(self) -> dict[Any, JudgedCase]:
        """The cases of the baseline by their keys."""
        return {case.key: case for case in self._baseline.cases}
