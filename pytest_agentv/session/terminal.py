"""What a run says at its end, and its exit code: in the one process that owns the terminal."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pytest

from pytest_agentv.errors import AgentvError
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.options import RunOptions
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.secrets import Masker
from pytest_agentv.reporting.markdown import RunVerdict, Trouble
from pytest_agentv.reporting.readers import iter_results
from pytest_agentv.reporting.summary import SummaryLine, summary_lines
from pytest_agentv.reporting.writers import ResultSink
from pytest_agentv.session.compat import TerminalReporter
from pytest_agentv.session.crashes import CrashWatch
from pytest_agentv.session.identity import RunIdentity, send_to_worker
from pytest_agentv.session.limits import WorkerNumbers
from pytest_agentv.session.step_summary import ItemOutcomes, append_step_summary

_MARKUP: Final[Mapping[str, Mapping[str, bool]]] = {
    "error": {"red": True, "bold": True},
    "fail": {"red": True},
    "pass": {"green": True},
    "warning": {"yellow": True},
    "heading": {"bold": True},
}


class RunReporter:
    """Prints the summary of a run from its lines in the results file: one source of truth, with workers or without."""

    NAME: Final = "agentv-reporter"

    def __init__(self, identity: RunIdentity, options: RunOptions, terminal: TerminalReporter | None) -> None:
        self._terminal = terminal
        self._identity = identity
        self._options = options
        self._started = time.perf_counter()
        self._elapsed_ms = 0.0
        self._write_errors: list[str] = []
        self._crashes: CrashWatch | None = None
        self._numbers = WorkerNumbers()
        self._outcomes = ItemOutcomes()
        self._results: list[EvalResult] = []
        self._remarks: list[str] = []

    @classmethod
    def register(cls, config: pytest.Config, identity: RunIdentity, options: RunOptions) -> "RunReporter":
        """Return the run's reporter, registered as a plugin of its own."""
        reporter = config.pluginmanager.get_plugin(cls.NAME)
        if not isinstance(reporter, cls):
            reporter = cls(identity, options, config.pluginmanager.get_plugin("terminalreporter"))
            config.pluginmanager.register(reporter, cls.NAME)
        return reporter

    def configure_worker(self, node: Any) -> None:
        """Take over the controller's part for a worker that is about to start."""
        if self._crashes is None:
            self._crashes = CrashWatch(node.config, self._identity, self._options)
            node.config.pluginmanager.register(self._crashes)
        send_to_worker(self._identity, self._numbers.take(node.gateway.id), node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._numbers.free(node.gateway.id)
        error = getattr(node, "workeroutput", {}).get("agentv_write_error")
        if error is not None:
            self.report_loss(error)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Show what a case told of itself under `--agentv-verbose`."""
        self._outcomes.note(report)
        text = getattr(report, "agentv_verbose", None)
        if text is not None and self._terminal is not None:
            if self._terminal.config.get_terminal_writer().width_of_current_line:
                self._terminal.write_line("")
            self._terminal.write_line(text)

    def report_loss(self, error: str) -> None:
        """Learn that results could not be written."""
        self._write_errors.append(error)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        self._record_crashes()
        # With --agentv-resume the results of an earlier run are there even if nothing is run.
        self._results, problems = ([], []) if session.config.getoption("collectonly") else self._read()
        self._elapsed_ms = (time.perf_counter() - self._started) * 1000
        self._remarks = [str(problem) for problem in problems]
        if self._write_errors and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED  # a run that lost results did not go well
        if self._results or self._write_errors:
            fault = append_step_summary(self._verdict(exitstatus))
            self._remarks += [fault] if fault else []
            if session.config.hook.pytest_agentv_summary.get_hookimpls():
                from pytest_agentv.session.summary_hook import tell_summary  # noqa: PLC0415 - for who wants it

                self._remarks += tell_summary(session.config, self._results)

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if not self._results and not self._write_errors:
            return
        path = self._identity.results_path
        lines = summary_lines(
            self._results, results_path=path, dry_run=self._options.dry_run, elapsed_ms=self._elapsed_ms
        )
        for line in lines:
            _print(terminalreporter, line)
        for remark in self._remarks:
            terminalreporter.write_line(remark, yellow=True)
        lost = self._lost()
        if lost:
            terminalreporter.write_line(f"{_lost_text(lost)}:", red=True)
            for node_id in lost:
                terminalreporter.write_line(f"  {node_id}", red=True)
            terminalreporter.write_line("Run them with --agentv-resume.", red=True)
        for text in dict.fromkeys(self._write_errors):
            terminalreporter.write_line(f"Results were lost: {text}", red=True, bold=True)

    def _verdict(self, exitstatus: int) -> RunVerdict:
        return RunVerdict(
            tuple(self._results),
            frozenset(self._outcomes.expected_failures),
            tuple(self._troubles(exitstatus)),
            self._identity.results_path,
            self._options.dry_run,
            self._elapsed_ms,
        )

    def _troubles(self, exitstatus: int) -> Iterator[Trouble]:
        """Yield what the results themselves do not tell."""
        if exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR):
            yield Trouble("The run broke off before its end")
        others = self._outcomes.failed_with_good_scores(self._results)
        if self._write_errors:
            yield Trouble("Results were lost", tuple(dict.fromkeys(self._write_errors)))
        elif others:
            yield Trouble("Failed outside of their evaluation (fixtures, strict `xfail`)", others)
        if lost := self._lost():
            yield Trouble(_lost_text(lost), tuple(lost))

    def _lost(self) -> list[str]:
        return self._crashes.lost(_node_ids(self._results)) if self._crashes else []

    def _record_crashes(self) -> None:
        """Write an error for each case on which a worker died: the worker could not."""
        crashed = list(self._crashes.crash_results(_node_ids(self._read()[0]))) if self._crashes else []
        if crashed:
            sink = ResultSink(self._identity.results_path, self._options.output_format, Masker())
            try:
                sink.write(*crashed)
            except AgentvError as error:
                self.report_loss(str(error))
            sink.close()

    def _read(self) -> tuple[list[EvalResult], list[Problem]]:
        """Read the run's results in the order of files and lines, whatever case ended first.

        Of an item that is rerun it is the last one.
        """
        latest: dict[tuple[str | None, str], EvalResult] = {}
        problems: list[Problem] = []
        for entry in self._entries():
            if isinstance(entry, Problem):
                problems.append(entry)
                continue
            result = EvalResult.from_plain(entry)
            latest[result.node_id, result.eval_id] = result
        return sorted(latest.values(), key=lambda result: (result.eval_file or "", result.line or 0)), problems

    def _entries(self) -> Iterator[Mapping[str, Any] | Problem]:
        if self._identity.results_path.is_file():
            try:
                yield from iter_results(self._identity.results_path, self._identity.run_id)
            except AgentvError as error:
                yield Problem(self._identity.results_path, None, "", str(error))


def _lost_text(lost: Sequence[str]) -> str:
    cases = "1 case was" if len(lost) == 1 else f"{len(lost)} cases were"
    return f"{cases} given to a worker that crashed, and not run again"


def _node_ids(results: Iterable[EvalResult]) -> set[str]:
    return {result.node_id for result in results if result.node_id is not None}


def _print(reporter: TerminalReporter, line: SummaryLine) -> None:
    if line.style == "title":
        reporter.write_sep("=", line.text)
    else:
        reporter.write_line(line.text, **_MARKUP.get(line.style, {}))
