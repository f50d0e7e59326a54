"""The section EVALUATION STATISTICS. Imported only if a run has repeats or is judged as a whole."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import pytest

from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.run_options import RunOptions
from pytest_agentv.reports.figures import SummaryLine
from pytest_agentv.session.gating.run_gate import RunGate
from pytest_agentv.session.recording.identity import RunIdentity
from pytest_agentv.session.showing.item_outcomes import uncollected_text

_BROKE_OFF: Final = "the run broke off before its end"
_NOTHING: Final = "agentv: no case was judged"


class VerdictSection:
    """Judges the run when its items are done, in the process that owns the terminal."""

    def __init__(
        self,
        config: pytest.Config,
        options: RunOptions,
        identity: RunIdentity,
        results: Callable[[], Sequence[EvalResult]],
    ) -> None:
        self._options = options
        self._identity = identity
        self._results = results
        self._gate = RunGate(config, options)
        self._is_judged = False
        self._faults: list[str] = []
        self._uncollected = 0
        self.has_crashes: Callable[[], bool] = lambda: False
        if options.judges_run:
            config.pluginmanager.register(self, "agentv-verdict")

    def check(self, node_ids: Collection[str]) -> None:
        """Check, before anything is paid for, that the run can be judged. Raises `pytest.UsageError`."""
        self._gate.check(node_ids, is_broken=self._uncollected > 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._gate.marked.note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._uncollected += report.failed

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._gate.note_deselected(getattr(node, "workeroutput", {}).get("agentv_deselected", 0))

    def suspects(self) -> Mapping[int, Sequence[EvalResult]]:
        """Return the cases that look broken, by the number of fresh answers that they get."""
        return {} if self._trouble() is not None else self._gate.suspects(self._results())

    def judge(self, session: pytest.Session) -> None:
        """Judge a finished run."""
        self._is_judged = True
        self._gate.judge(session, self._results(), self._trouble())
        fault = self._gate.amend(self._identity)
        self._faults += [fault] if fault else []

    def finish(self, results: Sequence[EvalResult]) -> list[str]:
        """Compute the figures of a run without gates, and write the verdict. Returns the lines to show."""
        if results and not self._options.judges_run:
            self._gate.describe(results)
        elif results and not self._is_judged:
            self._gate.describe(results, self._trouble() or _BROKE_OFF)
        elif results:
            self._gate.complete(results)
        elif self._is_judged:
            # All were skipped: say so, because a gate was asked for.
            self._faults.append(_NOTHING if self._gate.outcomes else f"{_NOTHING}, so there is no verdict")
        fault = self._gate.write(self._identity.results_path)
        return [*self._faults, *([fault] if fault else [])]

    def lines(self) -> Iterator[SummaryLine]:
        """Yield the lines of the section."""
        return self._gate.lines(verbose=self._options.verbose)

    def red_texts(self) -> Sequence[str]:
        """Return the headlines of the gates that failed."""
        return self._gate.red_texts()

    def contract(self) -> JsonObject | None:
        """Return the JSON of `<results>.verdict.json`; None: there is no verdict file."""
        return self._gate.contract()

    def _trouble(self) -> str | None:
        """Return a reason against any verdict on the run."""
        if self._options.dry_run:
            return "a dry run: its scores mean nothing"
        if self.has_crashes():
            return "a worker crashed"
        if self._uncollected:
            return uncollected_text(self._uncollected)
        return None
