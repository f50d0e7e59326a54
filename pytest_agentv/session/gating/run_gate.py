"""The gates of a run, in the process that owns the terminal."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from pytest_agentv.errors import AgentvError, name_below
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.options.defaults import DEFAULT_BASELINE
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.baselines.reading import read_baseline
from pytest_agentv.reporting.summary import SummaryLine
from pytest_agentv.reporting.verdicts.baseline import Baseline
from pytest_agentv.reporting.verdicts.case_reading import cases_of_run
from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.reporting.verdicts.gates import (
    REGRESSION,
    GateOutcome,
    baseline_gate,
    gate_lines,
    gates_contract,
)
from pytest_agentv.reporting.verdicts.lines import statistics_lines
from pytest_agentv.reporting.verdicts.run_statistics import RunStatistics, compare_with_baseline, run_statistics
from pytest_agentv.reporting.verdicts.suspects import suspects_of
from pytest_agentv.session.gating.baseline_update import FLAG, refuse_before, update_baseline
from pytest_agentv.session.gating.completeness import Completeness
from pytest_agentv.session.gating.gate_reports import report_gate
from pytest_agentv.session.gating.marked_items import MarkedItems
from pytest_agentv.session.gating.option_check import check_gates
from pytest_agentv.session.gating.selection import DESELECTED, narrowed_by
from pytest_agentv.session.gating.tag_rates import TagRates
from pytest_agentv.session.gating.verdict_files import amend_results, mark_added, write_verdict
from pytest_agentv.session.recording.identity import RunIdentity


class RunGate:
    """Judges a run once all its cases are done, and reports the verdict."""

    def __init__(self, config: pytest.Config, options: RunOptions) -> None:
        self.statistics: RunStatistics | None = None
        self.outcomes: tuple[GateOutcome, ...] = ()
        self._config = config
        self._options = options
        self._rates = TagRates(config, options)
        self._path = options.baseline or config.rootpath / DEFAULT_BASELINE
        self._baseline: Baseline | None = None
        self._is_checked = False
        self._no_verdict: str | None = None
        self._added: Sequence[JudgedCase] = ()
        """The cases whose answers this run wrote into the baseline."""
        self.marked = MarkedItems()
        self._all = Completeness(config, options, self.marked)

    def check(self, node_ids: Collection[str], *, is_broken: bool = False) -> None:
        """Check, before anything is paid for, that the run can be judged. Raises `pytest.UsageError`.

        Args:
            node_ids: The items.
            is_broken: Whether files could not be collected, so that nobody knows the tags of their cases.
        """
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
        if self._rates.given and not is_broken and narrowed_by(self._config, options) is None:
            self._rates.check(node_ids)

    def suspects(self, results: Sequence[EvalResult]) -> Mapping[int, Sequence[EvalResult]]:
        """Return the cases that look broken, by the number of fresh answers that they get."""
        options, cases = self._options, cases_of_run(results)
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
            if case.node_id in self.marked.bound:
                continue
            found.setdefault(answers, []).append(by_case[case.name, case.target])
        return found

    def judge(self, session: pytest.Session, results: Sequence[EvalResult], trouble: str | None) -> None:
        """Judge a finished run and report its gates. `trouble` is a reason against any verdict."""
        cases = cases_of_run(results)
        if not cases and not self._expects_cases(trouble):
            return
        fault = self._late_fault()
        if fault is not None:
            self.outcomes = (GateOutcome("gate::run", is_red=True, is_told=True, reason=fault),)
            report_gate(session, self.outcomes[0])
            return
        self._no_verdict = trouble or self._all.part(cases)
        self.statistics = self._statistics(cases)
        if self._options.update_baseline is not None:
            rates = self._rates.outcomes(cases) if self._no_verdict is None else ()
            self.outcomes = (self._update(cases), *rates)  # these gates may have to judge the failing cases
        elif self._no_verdict is None:
            self.outcomes = tuple(self._outcomes(cases))
        else:
            self.outcomes = tuple(self._unjudged(results))
        for outcome in self.outcomes:
            report_gate(session, outcome)

    def _expects_cases(self, trouble: str | None) -> bool:
        """Whether a run that judged no case should have: cases of its baseline are gone, and it left none out."""
        is_plan = self._config.getoption("setupplan", False)
        if trouble or is_plan or self._options.baseline is None or self._options.update_baseline is not None:
            return False
        if self._late_fault() is not None or self._baseline is None:
            return True
        return self._all.part(()) is None and len(self._all.skipped(())) < len(self._baseline.cases)

    def describe(self, results: Sequence[EvalResult], trouble: str | None = None) -> None:
        """Compute the figures of a run without a verdict."""
        self._no_verdict = trouble
        self.statistics = self._statistics(cases_of_run(results))

    def complete(self, results: Sequence[EvalResult]) -> None:
        """Compute the figures anew if there is no verdict: the line of a case on which a worker crashed comes late."""
        if self.statistics is not None and self._no_verdict is not None:
            self.statistics = self._statistics(cases_of_run(results))

    def note_deselected(self, count: int) -> None:
        """Note how many evaluations a worker left out. All workers collect the same items."""
        stash = self._config.stash
        stash[DESELECTED] = max(count, stash.get(DESELECTED, 0))

    def red_texts(self) -> Sequence[str]:
        """Return the headlines of the gates that failed."""
        return [outcome.headline for outcome in self.outcomes if outcome.is_red]

    def lines(self, *, verbose: bool) -> Iterator[SummaryLine]:
        """Yield the section of the terminal."""
        if self.statistics is not None:
            yield from statistics_lines(self.statistics, verbose=verbose, no_verdict=self._no_verdict)
            yield from gate_lines(self.outcomes, f"{self._name}::{REGRESSION}")

    def contract(self) -> JsonObject | None:
        """Return the JSON of `<results>.verdict.json`."""
        if self.statistics is None:
            return None
        gates = gates_contract(self.outcomes, self._options.gate, self.marked.left)
        return {**self.statistics.contract(), **gates}

    def write(self, results_path: Path) -> str | None:
        """Write the verdict beside the results; return why it cannot be."""
        contract = self.contract()
        return None if contract is None else write_verdict(contract, results_path)

    def amend(self, identity: RunIdentity) -> str | None:
        """Write into the results how each case did against the baseline, or that they are in it now.

        Returns why that cannot be.
        """
        if self._added:
            return mark_added(self._added, self._name, identity, self._options.output_format)
        if self.statistics is None or self._options.update_baseline is not None:
            return None
        return amend_results(self.statistics, identity, self._options.output_format)

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

    def _statistics(self, cases: Sequence[JudgedCase]) -> RunStatistics:
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

    def _outcomes(self, cases: Sequence[JudgedCase]) -> Iterator[GateOutcome]:
        gate, statistics = self._options.gate, self.statistics
        if statistics is not None and statistics.comparison is not None:
            yield baseline_gate(statistics, gate)
        yield from self._rates.outcomes(cases)

    def _unjudged(self, results: Sequence[EvalResult]) -> Iterator[GateOutcome]:
        """Fail the run for cases that only a verdict could judge, because there is no verdict."""
        options = self._options
        if options.gate not in ("run", "strict") or options.dry_run or narrowed_by(self._config, options) is not None:
            return
        left = (result for result in results if result.status == "fail" and not result.required)
        failed = [result for result in left if result.node_id not in self.marked.expected]
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
            how = str(self._options.update_baseline)
            text = update_baseline(self._path, self._name, cases, how, self._all)
        except AgentvError as error:
            return GateOutcome(name, is_red=True, is_told=True, reason=f"the baseline was not updated: {error}")
        self._added = cases
        return GateOutcome(name, is_red=False, reason=text, is_plain=True)
