"""The gates of a run: what each process leaves to them, and the verdict in the process that owns the terminal."""

import json
import os
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from glob import iglob
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_agentv.cases.discovery import is_eval_file, walk
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.errors import AgentvError, FileError, locate, name_below
from pytest_agentv.model.base import JsonObject, counted
from pytest_agentv.model.options import DEFAULT_BASELINE, OutputFormat, RunOptions
from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.figures import SummaryLine, visible
from pytest_agentv.reports.judged_cases import JudgedCase, cases_of_run, item_name
from pytest_agentv.reports.read import Baseline, baseline_of, baseline_text, read_baseline
from pytest_agentv.reports.verdict import (
    REGRESSION,
    RunStatistics,
    baseline_gate,
    check_tags,
    compare_with_baseline,
    gate_lines,
    gates_contract,
    parse_tag_gates,
    rate_gate,
    run_statistics,
    statistics_lines,
    suspects_of,
    unmatched_tags,
)
from pytest_agentv.reports.view import GateOutcome
from pytest_agentv.runtime.files import write_atomically
from pytest_agentv.session.identity import RunIdentity
from pytest_agentv.session.options import eval_globs, run_options
from pytest_agentv.session.outcomes import NOT_ASKED, EvalFailed, is_evaluation, may_be_eval, retold, uncollected_text
from pytest_agentv.store.writers import amend, verdict_path

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


# Reports gates as items: counted as tests, written to JUnit, and rerun by `--lf` until they pass.


def report_gate(session: pytest.Session, outcome: GateOutcome) -> None:
    """Report a gate to pytest like an item that ran last."""
    name = visible(outcome.name)
    location = (name.partition("::")[0], 0, name.partition("::")[2])
    hook = session.config.hook
    session.testscollected += 1
    hook.pytest_runtest_logstart(nodeid=name, location=location)
    for when in ("setup", "call", "teardown"):
        hook.pytest_runtest_logreport(report=_report(name, location, when, outcome))
    hook.pytest_runtest_logfinish(nodeid=name, location=location)


def _report(name: str, location: tuple[str, int, str], when: str, outcome: GateOutcome) -> pytest.TestReport:
    is_call = when == "call"
    is_expected = is_call and outcome.is_unenforced
    account = retold("\n".join([outcome.reason, *outcome.details]), outcome.headline, (location[0], 1))
    report = pytest.TestReport(
        nodeid=name,
        location=location,
        keywords={},
        outcome="failed" if is_call and outcome.is_red else "skipped" if is_expected else "passed",
        longrepr=account if is_call and outcome.is_told else None,
        when=when,  # type: ignore[arg-type]
        sections=(),
        duration=0.0,
    )
    if is_expected:
        report.wasxfail = outcome.headline  # shown, but not enforced
    return report


RUN: Final = "gate::run"
_NOTHING: Final = "agentv: no case was judged"


class RunGate:
    """Judges a run once all its cases are done, in the process that owns the terminal, and reports the verdict."""

    def __init__(
        self,
        config: pytest.Config,
        options: RunOptions,
        identity: RunIdentity,
        results: Callable[[], Sequence[EvalResult]],
    ) -> None:
        self._config = config
        self._options = options
        self._identity = identity
        self._results = results
        self._statistics: RunStatistics | None = None
        self._outcomes: tuple[GateOutcome, ...] = ()
        self._gates = parse_tag_gates(options.gates)
        self._set_aside: dict[str, str] = {}
        """The names of gates without a verdict, with the reasons."""
        self._path = options.baseline or config.rootpath / DEFAULT_BASELINE
        self._is_checked = self._is_judged = False
        self._no_verdict: str | None = None
        self._all = Completeness(config, options)
        self._faults: list[str] = []
        self._uncollected = 0
        self.has_crashes: Callable[[], bool] = lambda: False
        if options.judges_run:
            config.pluginmanager.register(self)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._all.note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._uncollected += report.failed

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Note how many evaluations a worker left out. All workers collect the same items."""
        stash, count = self._config.stash, getattr(node, "workeroutput", {}).get(DESELECTED_OUTPUT, 0)
        stash[DESELECTED] = max(count, stash.get(DESELECTED, 0))

    def check(self, node_ids: Collection[str]) -> None:
        """Check, before anything is paid for, that the run can be judged. Raises `pytest.UsageError`."""
        options = self._options
        self._is_checked = True
        judges_by = options.baseline is not None or options.fail_under is not None or options.gates
        if options.gate in ("run", "strict") and not judges_by:
            needs = "--agentv-baseline, --agentv-fail-under or agentv_gates"
            raise pytest.UsageError(f"--agentv-gate={options.gate} has nothing to judge the run by: it needs {needs}")
        if options.fail_under is not None and options.gate == "cases":
            raise pytest.UsageError(
                "--agentv-fail-under judges the run as a whole: it needs --agentv-gate=run or strict"
            )
        if options.update_baseline is not None:
            refuse_before(self._config, options)
        try:
            if self._path.exists() and (options.baseline is not None or options.update_baseline is not None):
                self._all.baseline = read_baseline(self._path)
            elif options.baseline is not None and options.update_baseline is None:
                raise pytest.UsageError(f"the baseline {self._name} is not there: write it with {FLAG}")
        except AgentvError as error:
            hint = "" if options.update_baseline is None else "; delete the file to write the baseline anew"
            raise pytest.UsageError(f"{error}{hint}") from None
        if options.update_baseline is not None and node_ids and (part := self._all.fault(node_ids)):
            raise pytest.UsageError(f"{FLAG} needs all cases: {part}")
        if not self._uncollected and narrowed_by(self._config, options) is None:
            self._set_gates_aside(node_ids)

    def _set_gates_aside(self, node_ids: Collection[str]) -> None:
        """Set gates aside whose cases were not all collected. Raises `pytest.UsageError` for a tag without any case."""
        root, wanted = self._config.rootpath, [gate.tag for gate in self._gates]
        files = {node_id.partition("::")[0] for node_id in node_ids if may_be_eval(node_id)} if wanted else ()
        tags = set[str]().union(*(_tags(root / name, wanted) for name in files))
        left = left_out_tags(self._config, wanted) if wanted else {}
        if fault := unmatched_tags(self._gates, tags | left.keys()):
            raise pytest.UsageError(f"agentv_gates: {fault}")
        partly = {f"gate::{tag}": file for tag, file in left.items()}
        if self._options.fail_under is not None and (others := left_out_of_rate(self._config)):
            partly[RUN] = others[0]
        reasons = {name: f"{name_below(file, root)} was not collected: no verdict" for name, file in partly.items()}
        missing = [f"gate::{tag}" for tag in wanted if tag in left and tag not in tags]
        self._set_aside = reasons | dict.fromkeys(missing, "none of its cases was collected: no verdict")

    def _rates(self, cases: Sequence[JudgedCase]) -> Iterator[GateOutcome]:
        """Yield how the gates of rates turned out; those without a verdict come last."""
        rate, gate = self._options.fail_under, self._options.gate
        checks = [] if rate is None else [rate_gate(RUN, rate, cases, gate)]
        checks += check_tags(self._gates, cases, gate)
        for check in sorted(checks, key=lambda check: check.name in self._set_aside):
            reason = self._set_aside.get(check.name)
            yield check if reason is None else GateOutcome(check.name, is_red=False, is_told=True, reason=reason)

    @pytest.hookimpl(wrapper=True, trylast=True)  # before pytest ends its line of progress
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Judge the whole run after its last item, and report its gates."""
        done = yield
        if not self._config.getoption("collectonly"):
            self._is_judged = True
            self._judge(session)
            if self._statistics is not None and self._options.update_baseline is None:
                fault = amend_results(self._statistics, self._identity, self._options.output_format)
                self._faults += [fault] if fault else []
        return done

    def _judge(self, session: pytest.Session) -> None:
        results, trouble = self._results(), self._trouble()
        cases = cases_of_run(results)
        if not cases and not self._expects_cases(trouble):
            return
        fault = self._late_fault()
        if fault is not None:
            self._outcomes = (GateOutcome(RUN, is_red=True, is_told=True, reason=fault),)
            report_gate(session, self._outcomes[0])
            return
        self._no_verdict = trouble or self._all.part(cases)
        self._statistics = self._compared(cases)
        if self._options.update_baseline is not None:
            rates = self._rates(cases) if self._no_verdict is None else ()
            self._outcomes = (self._update(cases), *rates)  # these gates may have to judge the failing cases
        elif self._no_verdict is None:
            comparison = (
                () if self._statistics.comparison is None else (baseline_gate(self._statistics, self._options.gate),)
            )
            self._outcomes = (*comparison, *self._rates(cases))
        else:
            self._outcomes = tuple(self._unjudged(results))
        for outcome in self._outcomes:
            report_gate(session, outcome)

    def _expects_cases(self, trouble: str | None) -> bool:
        """Whether a run that judged no case should have: cases of its baseline are gone, and it left none out."""
        is_plan = self._config.getoption("setupplan", False)
        if trouble or is_plan or self._options.baseline is None or self._options.update_baseline is not None:
            return False
        if self._late_fault() is not None or self._all.baseline is None:
            return True
        return self._all.part(()) is None and len(self._all.skipped(())) < len(self._all.baseline.cases)

    def finish(self, results: Sequence[EvalResult]) -> list[str]:
        """Compute the figures of a run without gates, and write the verdict. Returns the lines to show."""
        if results and not self._is_judged and self._options.judges_run:
            self._no_verdict = self._trouble() or "the run broke off before its end"
        is_open = self._statistics is not None and self._no_verdict is not None  # a crashed worker's line comes late
        if results and (is_open or not self._is_judged):
            self._statistics = self._compared(cases_of_run(results))
        elif self._is_judged and not results:
            # All were skipped: say so, because a gate was asked for.
            self._faults.append(_NOTHING if self._outcomes else f"{_NOTHING}, so there is no verdict")
        contract, path = self.contract(), self._identity.results_path
        if contract is not None and path.is_file():
            try:
                write_atomically(verdict_path(path), f"{json.dumps(contract, ensure_ascii=False, indent=2)}\n")
            except (AgentvError, OSError) as error:
                self._faults.append(f"the verdict was not written: {error}")
        return self._faults

    def _trouble(self) -> str | None:
        """Return a reason against any verdict on the run."""
        if self._options.dry_run:
            return "a dry run: its scores mean nothing"
        if self.has_crashes():
            return "a worker crashed"
        if self._uncollected:
            return uncollected_text(self._uncollected)
        return None

    def lines(self) -> Iterator[SummaryLine]:
        if self._statistics is not None:
            yield from statistics_lines(self._statistics, verbose=self._options.verbose, no_verdict=self._no_verdict)
            yield from gate_lines(self._outcomes, f"{self._name}::{REGRESSION}")

    def contract(self) -> JsonObject | None:
        """Return the JSON of `<results>.verdict.json`."""
        if self._statistics is None:
            return None
        gates = gates_contract(self._outcomes, self._options.gate, self._all.judged_with_run)
        return {**self._statistics.contract(), **gates}

    @property
    def _name(self) -> str:
        return name_below(self._path, self._config.rootpath)

    def _late_fault(self) -> str | None:
        """Run `check` if nobody called it: a run whose evals are all in Python has no eval files."""
        try:
            if not self._is_checked:
                self.check(())
        except pytest.UsageError as error:
            return str(error)
        return None

    def _compared(self, cases: Sequence[JudgedCase]) -> RunStatistics:
        if self._no_verdict is not None:
            return run_statistics(cases).replace(verdicts=("no verdict",), reasons=(self._no_verdict,))
        if self._all.baseline is None:
            return run_statistics(cases)
        return compare_with_baseline(
            cases,
            self._all.baseline,
            self._name,
            skipped=self._all.skipped(cases),
            margin=self._options.margin,
            is_confirming=self._options.confirm > 0 and self._options.update_baseline is None,
        )

    def _unjudged(self, results: Sequence[EvalResult]) -> Iterator[GateOutcome]:
        """Fail the run for cases that only a verdict could judge, because there is no verdict."""
        options = self._options
        if options.gate not in ("run", "strict") or options.dry_run or narrowed_by(self._config, options) is not None:
            return
        left = (result for result in results if result.status == "fail" and not result.required)
        failed = [result for result in left if result.node_id not in self._all.expected]
        if failed:
            text = (
                f"{counted(len(failed), 'case')} failed, and there is no verdict to judge them by: {self._no_verdict}"
            )
            yield GateOutcome(RUN, is_red=True, is_told=True, reason=text)

    def _update(self, cases: Sequence[JudgedCase]) -> GateOutcome:
        """Write the baseline, or say why not, and report that like a gate."""
        name = f"{self._name}::update"
        try:
            if self._no_verdict is not None:
                raise AgentvError(self._no_verdict)
            text = write_baseline(self._path, cases, len(self._all.skipped(cases)))
        except AgentvError as error:
            return GateOutcome(name, is_red=True, is_told=True, reason=f"the baseline was not updated: {error}")
        return GateOutcome(name, is_red=False, reason=text, is_plain=True)


# Compares the cases of a run with those of its baseline: an incomplete run gets no verdict.


class Completeness:
    """Knows which cases a run left out, in the process that owns the terminal."""

    def __init__(self, config: pytest.Config, options: RunOptions) -> None:
        self._config = config
        self._options = options
        self.baseline: Baseline | None = None
        self.expected: set[str] = set()
        """Node ids of items that failed as their `xfail` mark expects."""
        self.judged_with_run: set[str] = set()
        """Node ids of items that failed and are judged with the run."""
        self._unasked = 0
        self._skipped: set[tuple[str, str | None]] = set()

    def note(self, report: Any) -> None:
        """Note why an item has no verdict of its own: skipped, expected to fail, or ended early."""
        if (report.failed or hasattr(report, "wasxfail")) and not hasattr(report, RECORDED):
            self._skipped.add((report.nodeid, None))  # a test that ends early never reaches its later cases
        if not report.skipped:
            return
        if hasattr(report, "wasxfail"):
            (self.judged_with_run if report.wasxfail == REASON else self.expected).add(report.nodeid)
        elif NOT_ASKED in str(report.longrepr):
            self._unasked += 1
        else:
            eval_id, target = getattr(report, CASE, (None, None))
            name = report.nodeid if eval_id is None else f"{report.nodeid.partition('::')[0]}::{eval_id}"
            self._skipped.add((name, target))

    def fault(self, node_ids: Collection[str]) -> str | None:
        """Return what shows, at collection, that cases are missing; None: nothing does."""
        missing = self._uncollected({node_id.partition("::")[0] for node_id in node_ids})
        return narrowed_by(self._config, self._options) or (f"{missing[0]} was not collected" if missing else None)

    def part(self, cases: Sequence[JudgedCase]) -> str | None:
        """Return why the run does not have all cases; None if it has all, as far as is known."""
        narrowed = narrowed_by(self._config, self._options)
        if narrowed is None and self._unasked:
            narrowed = f"{self._unasked:,} not asked for"
        missing = self._uncollected({case.eval_file for case in (*cases, *self.skipped(cases))})
        if narrowed is None and not missing:
            return None
        reason = narrowed or f"no case of {missing[0]} was run"
        if self.baseline is None:
            verb = "may be" if reason in MAY_LEAVE_OUT_NONE else "is" if len(cases) == 1 else "are"
            return f"{counted(len(cases), 'case')} {verb} a part of all ({reason})"
        known = {case.key for case in self.baseline.cases}
        found = sum(case.key in known for case in cases)
        return f"{found:,} of {len(known):,} cases ({reason})"

    def skipped(self, cases: Sequence[JudgedCase]) -> tuple[JudgedCase, ...]:
        """Return the cases of the baseline without a result in this run: their items were skipped or ended early."""
        found = {case.key for case in cases}
        return tuple(
            case
            for case in (self.baseline.cases if self.baseline is not None else ())
            if case.key not in found
            and not self._skipped.isdisjoint({(case.name, None), (case.name, case.target), (case.node_id, None)})
        )

    def _uncollected(self, seen: Collection[str | None]) -> list[str]:
        """Return the eval files of the baseline that exist but are not among those seen."""
        files = {case.eval_file for case in self.baseline.cases} if self.baseline is not None else set()
        root = self._config.rootpath
        return sorted(file for file in files - set(seen) if file is not None and (root / file).is_file())


# Refuses a baseline that no run can be compared with: all its files are gone.

_SHOWN: Final = 3


def refuse_gone(config: pytest.Config) -> None:
    """Raise `pytest.UsageError` for a baseline of files that are no longer there, unless the run writes it anew."""
    try:
        options = run_options(config)
        path = options.baseline
        if path is None or options.update_baseline is not None or options.dry_run:
            return
        files = {case.eval_file for case in read_baseline(path).cases}
    except (pytest.UsageError, AgentvError):  # told where they are used
        return
    folders = config.rootpath, path.parent  # a run with another root directory has other names for the files
    if not files or None in files or any((folder / str(file)).exists() for folder in folders for file in files):
        return
    shown = ", ".join(sorted(map(str, files))[:_SHOWN]) + (", …" if len(files) > _SHOWN else "")
    text = f"the baseline {name_below(path, config.rootpath)} is stale: the files of its cases are gone ({shown})"
    raise pytest.UsageError(f"{text}; --agentv-update-baseline writes it anew")


# Decides whether a run may become the baseline, and writes it.

FLAG = "--agentv-update-baseline"


def refuse_before(config: pytest.Config, options: RunOptions) -> None:
    """Refuse options that rule out a baseline, before anything is paid for. Raises `pytest.UsageError`."""
    given = {
        "--agentv-dry-run (its scores mean nothing)": options.dry_run,
        "--agentv-cache (a baseline needs fresh answers)": options.cache,
        "--agentv-stop=certain (a baseline needs all answers)": options.stop == "certain",
        "-k": config.getoption("keyword", ""),
        "-m": config.getoption("markexpr", ""),
        "-x or --maxfail": config.getoption("maxfail", 0),
        "--deselect": config.getoption("deselect", None),
        "--agentv-sample": options.sample is not None,
        "--reruns (a case that is asked until it passes tells nothing)": config.getoption("reruns", 0),
    }
    found = [name for name, value in given.items() if value]
    narrowing = narrowing_option(config, options)
    if narrowing is not None:
        found.append(narrowing)
    if found:
        raise pytest.UsageError(f"{FLAG} does not go with {', '.join(found)}")
    if os.environ.get("CI") and options.update_baseline != "force":
        text = "is refused where CI is set: write the baseline on your machine and commit it"
        raise pytest.UsageError(f"{FLAG} {text} (or use {FLAG}=force)")


def write_baseline(path: Path, cases: Sequence[JudgedCase], skipped: int) -> str:
    """Write the baseline and return a line about it. Raises `AgentvError` with the reason if the run may not become it.

    `skipped` cases of the old baseline are not in the new one.
    """
    named = {
        "could not be judged": [case for case in cases if case.is_error],
        "came from the cache": [case for case in cases if "cached" in case.flags],
        "were asked again until they passed (--reruns)": [case for case in cases if "reruns" in case.flags],
        "were asked only until the verdict was certain": [case for case in cases if case.stopped is not None],
    }
    for what, found in named.items():
        if found:
            raise AgentvError(f"{len(found)} of {len(cases)} cases {what}")
    new = baseline_of(cases)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, baseline_text(new))
    except OSError as error:
        raise FileError(path, f"the baseline cannot be written: {error.strerror or error}") from None
    text = f"Baseline written to: {locate(path, None)} ({len(new.cases):,} cases x {new.repeat})"
    return text + (f", without {skipped:,} that {'was' if skipped == 1 else 'were'} skipped" if skipped else "")


def amend_results(statistics: RunStatistics, identity: RunIdentity, output_format: OutputFormat) -> str | None:
    """Write into the results how each case did against the baseline; return why that cannot be."""
    additions = {
        (case.node_id, case.eval_id): {"baseline": figures.to_plain()} for case, figures in statistics.figures()
    }
    try:
        if additions and identity.results_path.is_file():
            amend(identity.results_path, identity.run_id, output_format, additions)
    except AgentvError as error:
        return f"the results do not say how cases did against the baseline: {error}"
    return None
