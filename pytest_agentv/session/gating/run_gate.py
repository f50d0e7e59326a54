"""The gates of a run, in the process that owns the terminal."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import pytest

from pytest_agentv.errors import AgentvError, name_below
from pytest_agentv.model.base import JsonObject, counted
from pytest_agentv.model.options import DEFAULT_BASELINE, RunOptions
from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.baseline import Baseline, read_baseline
from pytest_agentv.reports.figures import SummaryLine, visible
from pytest_agentv.reports.gates import (
    REGRESSION,
    baseline_gate,
    check_tags,
    gate_lines,
    gates_contract,
    parse_tag_gates,
    rate_check,
    rate_gate,
    suspects_of,
    unmatched_tags,
)
from pytest_agentv.reports.judged_cases import JudgedCase, cases_of_run
from pytest_agentv.reports.verdict import RunStatistics, compare_with_baseline, run_statistics, statistics_lines
from pytest_agentv.reports.view import GateOutcome
from pytest_agentv.session.gating.completeness import (
    FLAG,
    Completeness,
    amend_results,
    refuse_before,
    write_baseline,
    write_verdict,
)
from pytest_agentv.session.gating.judged_cases import (
    DESELECTED,
    DESELECTED_OUTPUT,
    MarkedItems,
    left_out_of_rate,
    left_out_tags,
    narrowed_by,
    tags_of,
    uncollected_tags,
)
from pytest_agentv.session.outcomes import EvalFailed, uncollected_text
from pytest_agentv.session.recording.identity import RunIdentity

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
    report = pytest.TestReport(
        nodeid=name,
        location=location,
        keywords={},
        outcome="failed" if is_call and outcome.is_red else "skipped" if is_expected else "passed",
        longrepr=_account(name, outcome) if is_call and outcome.is_told else None,
        when=when,  # type: ignore[arg-type]
        sections=(),
        duration=0.0,
    )
    if is_expected:
        report.wasxfail = outcome.headline  # shown, but not enforced
    return report


def _account(name: str, outcome: GateOutcome) -> Any:
    """Return a representation that keeps its message in the short summary."""
    error = EvalFailed("\n".join([outcome.reason, *outcome.details]), outcome.headline)
    try:
        raise error
    except EvalFailed as raised:
        shown = pytest.ExceptionInfo.from_exception(raised).getrepr(style="value")
    if shown.reprcrash is not None:
        shown.reprcrash.path = name.partition("::")[0]
        shown.reprcrash.lineno = 1
        shown.reprcrash.message = outcome.headline
    return shown


# The pass rates that a run, and the cases with a tag, must reach.

RUN: Final = "gate::run"


class TagRates:
    """The gates of a run's rates. `given` says whether there is one for a tag."""

    def __init__(self, config: pytest.Config, options: RunOptions) -> None:
        self._config = config
        self._options = options
        self._gates = parse_tag_gates(options.gates)
        self._set_aside: dict[str, str] = {}
        """The names of gates without a verdict, with the reasons."""

    @property
    def given(self) -> bool:
        return bool(self._gates) or self._options.fail_under is not None

    def check(self, node_ids: Collection[str]) -> None:
        """Set gates aside whose cases were not all collected. Raises `pytest.UsageError` for a tag without any case."""
        missing = self._uncollected(node_ids)
        tags = left_out_tags(self._config, [gate.tag for gate in self._gates]) if self._gates else {}
        partly = {f"gate::{tag}": file for tag, file in tags.items()}
        if self._options.fail_under is not None and (files := left_out_of_rate(self._config)):
            partly[RUN] = files[0]
        root = self._config.rootpath
        reasons = {name: f"{name_below(file, root)} was not collected: no verdict" for name, file in partly.items()}
        self._set_aside = reasons | dict.fromkeys(missing, "none of its cases was collected: no verdict")

    def outcomes(self, cases: Sequence[JudgedCase]) -> Iterator[GateOutcome]:
        """Yield how each rate turned out; those without a verdict come last."""
        rate = self._options.fail_under
        checks = [] if rate is None else [rate_check(RUN, rate, cases)]
        checks += check_tags(self._gates, cases)
        yield from (rate_gate(check, self._options.gate) for check in checks if check.name not in self._set_aside)
        for check in checks:
            if (reason := self._set_aside.get(check.name)) is not None:
                yield GateOutcome(check.name, is_red=False, is_told=True, reason=reason)

    def _uncollected(self, node_ids: Collection[str]) -> list[str]:
        """Return the gates of which no case was collected. Raises `pytest.UsageError` for a tag without any case."""
        wanted = [gate.tag for gate in self._gates]
        tags = tags_of(node_ids, self._config.rootpath, wanted) if wanted else set()
        if unmatched_tags(self._gates, tags) is None:
            return []
        others = uncollected_tags(self._config, node_ids) - tags
        fault = unmatched_tags(self._gates, tags | others)
        if fault is not None:
            raise pytest.UsageError(f"agentv_gates: {fault}")
        return [f"gate::{gate.tag}" for gate in self._gates if gate.tag in others]


# Which options of gates do not go together.


def check_gates(options: RunOptions) -> None:
    """Raise `pytest.UsageError` for a gate without a case to judge."""
    if options.gate in ("run", "strict"):
        if options.baseline is None and options.fail_under is None and not options.gates:
            needs = "--agentv-baseline, --agentv-fail-under or agentv_gates"
            raise pytest.UsageError(f"--agentv-gate={options.gate} has nothing to judge the run by: it needs {needs}")
    elif options.fail_under is not None and options.gate == "cases":
        raise pytest.UsageError("--agentv-fail-under judges the run as a whole: it needs --agentv-gate=run or strict")


_BROKE_OFF: Final = "the run broke off before its end"
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
        self._rates = TagRates(config, options)
        self._path = options.baseline or config.rootpath / DEFAULT_BASELINE
        self._baseline: Baseline | None = None
        self._is_checked = self._is_judged = False
        self._no_verdict: str | None = None
        self._marked = MarkedItems()
        self._all = Completeness(config, options, self._marked)
        self._faults: list[str] = []
        self._uncollected = 0
        self.has_crashes: Callable[[], bool] = lambda: False
        if options.judges_run:
            config.pluginmanager.register(self, "agentv-verdict")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._marked.note(report)

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
        check_gates(options)
        if options.update_baseline is not None:
            refuse_before(self._config, options)
        try:
            if options.baseline is not None or options.update_baseline is not None:
                self._baseline = self._all.baseline = self._read_baseline()
        except AgentvError as error:
            hint = "" if options.update_baseline is None else "; delete the file to write the baseline anew"
            raise pytest.UsageError(f"{error}{hint}") from None
        if options.update_baseline is not None and node_ids and (part := self._all.fault(node_ids)):
            raise pytest.UsageError(f"{FLAG} needs all cases: {part}")
        if self._rates.given and not self._uncollected and narrowed_by(self._config, options) is None:
            self._rates.check(node_ids)

    def suspects(self) -> Mapping[int, Sequence[EvalResult]]:
        """Return the cases that look broken, by the number of fresh answers that they get."""
        if self._trouble() is not None:
            return {}
        options, results = self._options, self._results()
        cases = cases_of_run(results)
        if (
            self._baseline is None
            or not options.confirm
            or options.update_baseline is not None
            or self._all.part(cases)
        ):
            return {}
        found: dict[int, list[EvalResult]] = {}
        by_case = dict(zip(((case.name, case.target) for case in cases), results, strict=True))
        for case, answers in suspects_of(cases, self._baseline, options.confirm, retries=options.retry_errors):
            if case.node_id in self._marked.bound:
                continue
            found.setdefault(answers, []).append(by_case[case.name, case.target])
        return found

    def judge(self, session: pytest.Session) -> None:
        """Judge a finished run and report its gates."""
        self._is_judged = True
        results, trouble = self._results(), self._trouble()
        self._judge(session, results, trouble)
        if self._statistics is not None and self._options.update_baseline is None:
            fault = amend_results(self._statistics, self._identity, self._options.output_format)
            self._faults += [fault] if fault else []

    def _judge(self, session: pytest.Session, results: Sequence[EvalResult], trouble: str | None) -> None:
        cases = cases_of_run(results)
        if not cases and not self._expects_cases(trouble):
            return
        fault = self._late_fault()
        if fault is not None:
            self._outcomes = (GateOutcome("gate::run", is_red=True, is_told=True, reason=fault),)
            report_gate(session, self._outcomes[0])
            return
        self._no_verdict = trouble or self._all.part(cases)
        self._statistics = self._compared(cases)
        if self._options.update_baseline is not None:
            rates = self._rates.outcomes(cases) if self._no_verdict is None else ()
            self._outcomes = (self._update(cases), *rates)  # these gates may have to judge the failing cases
        elif self._no_verdict is None:
            self._outcomes = tuple(self._gates(cases))
        else:
            self._outcomes = tuple(self._unjudged(results))
        for outcome in self._outcomes:
            report_gate(session, outcome)

    def _expects_cases(self, trouble: str | None) -> bool:
        """Whether a run that judged no case should have: cases of its baseline are gone, and it left none out."""
        is_plan = self._config.getoption("setupplan", False)
        if trouble or is_plan or self._options.baseline is None or self._options.update_baseline is not None:
            return False
        if self._late_fault() is not None or self._baseline is None:
            return True
        return self._all.part(()) is None and len(self._all.skipped(())) < len(self._baseline.cases)

    def finish(self, results: Sequence[EvalResult]) -> list[str]:
        """Compute the figures of a run without gates, and write the verdict. Returns the lines to show."""
        if results and not self._is_judged:
            self._no_verdict = self._trouble() or _BROKE_OFF if self._options.judges_run else None
            self._statistics = self._compared(cases_of_run(results))
        elif results and self._statistics is not None and self._no_verdict is not None:
            self._statistics = self._compared(cases_of_run(results))  # a crashed worker's line comes late
        elif self._is_judged and not results:
            # All were skipped: say so, because a gate was asked for.
            self._faults.append(_NOTHING if self._outcomes else f"{_NOTHING}, so there is no verdict")
        contract = self.contract()
        fault = None if contract is None else write_verdict(contract, self._identity.results_path)
        return [*self._faults, *([fault] if fault else [])]

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
        """Yield the section of the terminal."""
        if self._statistics is not None:
            yield from statistics_lines(self._statistics, verbose=self._options.verbose, no_verdict=self._no_verdict)
            yield from gate_lines(self._outcomes, f"{self._name}::{REGRESSION}")

    def contract(self) -> JsonObject | None:
        """Return the JSON of `<results>.verdict.json`."""
        if self._statistics is None:
            return None
        gates = gates_contract(self._outcomes, self._options.gate, self._marked.judged_with_run)
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

    def _read_baseline(self) -> Baseline | None:
        if self._path.exists():
            return read_baseline(self._path)
        if self._options.update_baseline is not None:
            return None
        raise pytest.UsageError(f"the baseline {self._name} is not there: write it with {FLAG}")

    def _compared(self, cases: Sequence[JudgedCase]) -> RunStatistics:
        if self._no_verdict is not None:
            return run_statistics(cases).replace(verdicts=("no verdict",), reasons=(self._no_verdict,))
        if self._baseline is None:
            return run_statistics(cases)
        return compare_with_baseline(
            cases,
            self._baseline,
            self._name,
            skipped=self._all.skipped(cases),
            margin=self._options.margin,
            is_confirming=self._options.confirm > 0 and self._options.update_baseline is None,
        )

    def _gates(self, cases: Sequence[JudgedCase]) -> Iterator[GateOutcome]:
        gate, statistics = self._options.gate, self._statistics
        if statistics is not None and statistics.comparison is not None:
            yield baseline_gate(statistics, gate)
        yield from self._rates.outcomes(cases)

    def _unjudged(self, results: Sequence[EvalResult]) -> Iterator[GateOutcome]:
        """Fail the run for cases that only a verdict could judge, because there is no verdict."""
        options = self._options
        if options.gate not in ("run", "strict") or options.dry_run or narrowed_by(self._config, options) is not None:
            return
        left = (result for result in results if result.status == "fail" and not result.required)
        failed = [result for result in left if result.node_id not in self._marked.expected]
        if failed:
            reason = (
                f"{counted(len(failed), 'case')} failed, and there is no verdict to judge them by: {self._no_verdict}"
            )
            yield GateOutcome("gate::run", is_red=True, is_told=True, reason=reason)

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
