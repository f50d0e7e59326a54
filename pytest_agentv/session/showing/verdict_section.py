"""The section EVALUATION STATISTICS. What it takes is imported where a run has repeats, or is judged as a whole."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.options import RunOptions
from pytest_agentv.models.results import EvalResult

if TYPE_CHECKING:  # for runs with results
    from pytest_agentv.reporting.summary import SummaryLine

_BROKE_OFF: Final = "the run broke off before its end"


class _Gate(Protocol):
    """What the section needs of `session.gating.run_gate.RunGate`."""

    def check(self, node_ids: Iterable[str]) -> None: ...
    def judge(self, session: pytest.Session, results: Sequence[EvalResult], trouble: str | None) -> None: ...
    def describe(self, results: Sequence[EvalResult], trouble: str | None = None) -> None: ...
    def suspects(self, results: Sequence[EvalResult]) -> Mapping[int, Sequence[EvalResult]]: ...
    def note_deselected(self, count: int) -> None: ...
    def lines(self, *, verbose: bool) -> "Iterator[SummaryLine]": ...
    def red_texts(self) -> Sequence[str]: ...
    def contract(self) -> JsonObject | None: ...
    def write(self, results_path: Path) -> str | None: ...


class VerdictSection:
    """Has the run judged when its items are done, in the process that owns the terminal."""

    def __init__(self, config: pytest.Config, options: RunOptions, results: Callable[[], Sequence[EvalResult]]) -> None:
        self._config = config
        self._options = options
        self._results = results
        self._gate: _Gate | None = None
        self._is_judged = False
        self._uncollected = 0
        self.has_crashes: Callable[[], bool] = lambda: False
        if options.judges_run:
            self._gate = self._open()
            config.pluginmanager.register(self, "agentv-verdict")

    def check(self, node_ids: Iterable[str]) -> None:
        """See, before anything is paid for, whether the run can be judged. Raises `pytest.UsageError`."""
        if self._gate is not None:
            self._gate.check(node_ids)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._uncollected += report.failed

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if self._gate is not None:
            self._gate.note_deselected(getattr(node, "workeroutput", {}).get("agentv_deselected", 0))

    def judge(self, session: pytest.Session) -> None:
        """Judge a run that came to its end."""
        if self._gate is not None:
            self._is_judged = True
            self._gate.judge(session, self._results(), self._trouble())

    def suspects(self) -> Mapping[int, Sequence[EvalResult]]:
        """Return the cases that look broken, by how many fresh answers they are to get."""
        if self._gate is None or self._trouble() is not None:
            return {}
        return self._gate.suspects(self._results())

    def finish(self, results: Sequence[EvalResult], results_path: Path) -> list[str]:
        """Take the figures of a run that nobody judged, and write the verdict; return what is to be said of it."""
        has_repeats = any(result.repeat is not None for result in results)
        if self._gate is None and has_repeats and not self._options.dry_run:
            self._gate = self._open()
            self._gate.describe(results)
        elif self._gate is not None and not self._is_judged and results:
            self._gate.describe(results, self._trouble() or _BROKE_OFF)
        fault = self._gate.write(results_path) if self._gate is not None else None
        return [fault] if fault else []

    def lines(self) -> "Iterator[SummaryLine]":
        if self._gate is not None:
            yield from self._gate.lines(verbose=self._options.verbose)

    def red_texts(self) -> Sequence[str]:
        """Return what the gates that failed say."""
        return self._gate.red_texts() if self._gate is not None else ()

    def contract(self) -> JsonObject | None:
        """Return the JSON of `<results>.verdict.json`; None: there is no verdict file."""
        return self._gate.contract() if self._gate is not None else None

    def _open(self) -> _Gate:
        from pytest_agentv.session.gating.run_gate import RunGate  # noqa: PLC0415 - statistics, for who has repeats

        return RunGate(self._config, self._options)

    def _trouble(self) -> str | None:
        """Return why the run is not to be judged."""
        if self._options.dry_run:
            return "a dry run: its scores mean nothing"
        if self.has_crashes():
            return "a worker crashed"
        if self._uncollected:
            return f"{self._uncollected} {'file' if self._uncollected == 1 else 'files'} could not be collected"
        return None
