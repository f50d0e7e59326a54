"""What a run says at its end, and its exit code: in the one process that owns the terminal."""

import itertools
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_agentv.errors import AgentvError, locate
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.options import RunOptions
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.reporting.writers import ResultSink, answers_path
from pytest_agentv.session.choosing.asking import REASON, send_named, unasked_line
from pytest_agentv.session.compat import TerminalReporter
from pytest_agentv.session.names import may_be_eval
from pytest_agentv.session.recording.identity import RunIdentity, send_to_worker
from pytest_agentv.session.recording.run_results import RunResults, read_run
from pytest_agentv.session.recording.travel import RECORDS, unpack
from pytest_agentv.session.showing.item_outcomes import ItemOutcomes
from pytest_agentv.session.showing.kept_reports import KeptReports
from pytest_agentv.session.workers.shares import WORKER_NUMBER, WorkerNumbers

if TYPE_CHECKING:  # what few runs need
    from pytest_agentv.reporting.markdown import Trouble
    from pytest_agentv.reporting.summary import SummaryLine
    from pytest_agentv.session.showing.verdict_section import VerdictSection
    from pytest_agentv.session.workers.crashes import CrashWatch

STEP_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
"""The variable that names the summary page."""

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

    def __init__(self, config: pytest.Config, identity: RunIdentity, options: RunOptions) -> None:
        self._terminal: TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
        self._root = config.rootpath
        self._is_checked = False
        self._identity = identity
        self._options = options
        self._started = time.perf_counter()
        self._elapsed_ms = 0.0
        self._write_errors: list[str] = []
        self._crashes: CrashWatch | None = None
        self._numbers = WorkerNumbers()
        self._outcomes = ItemOutcomes()
        self._run = RunResults()
        self._sink = ResultSink(identity.results_path, options.output_format, Masker())
        self._remarks: list[str] = []
        self._section = self._open_section(config) if options.judges_run else None
        self._report: Path | None = None
        """The HTML report, once it is written."""
        self._unasked = 0
        """Cases that were skipped because nobody asked for them."""

    @classmethod
    def register(cls, config: pytest.Config, identity: RunIdentity, options: RunOptions) -> "RunReporter":
        """Return the run's reporter, registered as a plugin of its own."""
        reporter = config.pluginmanager.get_plugin(cls.NAME)
        if not isinstance(reporter, cls):
            reporter = cls(config, identity, options)
            config.pluginmanager.register(reporter, cls.NAME)
            if reporter._terminal is not None:
                config.pluginmanager.register(KeptReports(reporter._terminal))
        return reporter

    def configure_worker(self, node: Any) -> None:
        """Take over the controller's part for a worker that is about to start."""
        if self._crashes is None:
            from pytest_agentv.session.workers.crashes import CrashWatch  # noqa: PLC0415 - for runs with workers

            self._crashes = CrashWatch(node.config, self._identity, self._options)
            node.config.pluginmanager.register(self._crashes)
            if self._section is not None:
                self._section.has_crashes = lambda: self._crashes is not None and self._crashes.has_crashed
        node.workerinput[WORKER_NUMBER] = self._numbers.take(node.gateway.id)
        send_to_worker(self._identity, node)
        send_named(node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._numbers.free(node.gateway.id)
        output = getattr(node, "workeroutput", {})
        self._append(tuple(unpack(output.get(RECORDS))))
        error = output.get("agentv_write_error")
        if error is not None:
            self.report_loss(error)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Take home what a report brings, and show what a case told of itself under `--agentv-verbose`."""
        self._outcomes.note(report)
        self._unasked += report.skipped and REASON in str(report.longrepr)
        packed = getattr(report, RECORDS, None)
        if packed is not None:
            delattr(report, RECORDS)  # no report of others is to hold it
            self._append(tuple(unpack(packed)))
        text = getattr(report, "agentv_verbose", None)
        if text is not None and self._terminal is not None:
            if self._terminal.config.get_terminal_writer().width_of_current_line:
                self._terminal.write_line("")
            self._terminal.write_line(text)

    def report_loss(self, error: str) -> None:
        """Learn that results could not be written."""
        self._write_errors.append(error)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.check(ids)

    def check(self, node_ids: Sequence[str]) -> None:
        """See, before anything is paid for, whether the run can go on with its file, and write to it.

        Raises `pytest.UsageError`.
        """
        if self._is_checked:
            return
        self._is_checked = True
        resumed = self._identity.resumed
        files = {node_id.partition("::")[0] for node_id in node_ids}
        if resumed is not None and (fault := resumed.foreign_fault(files, self._root)):
            raise pytest.UsageError(fault)
        if any(map(may_be_eval, node_ids)):
            if self._section is not None:
                self._section.check(node_ids)
            try:
                self._sink.probe()
            except AgentvError as error:
                raise pytest.UsageError(f"no results can be recorded: {error}") from None
            finally:
                self._sink.close()  # cases may be run elsewhere

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if session.config.getoption("collectonly") or exitstatus == pytest.ExitCode.USAGE_ERROR:
            return
        self._record_crashes()
        self._sink.close()
        # With --agentv-retry-errors the results of an earlier run are there even if nothing is run.
        wants_results = bool(session.config.hook.pytest_agentv_summary.get_hookimpls())
        self._run = read_run(self._identity, self._outcomes.reported, with_texts=wants_results)
        self._elapsed_ms = (time.perf_counter() - self._started) * 1000
        resumed = self._identity.resumed.remarks if self._identity.resumed else ()
        self._remarks = list(dict.fromkeys([*resumed, *map(str, self._run.problems)]))
        self._find_loss()
        if self._section is None and not self._options.dry_run and any(result.repeat for result in self._results):
            self._section = self._open_section(session.config)
        if self._section is not None:
            self._remarks += self._section.finish(self._results, self._identity.results_path)
        self._drop_answers()
        if self._options.html is not None:
            self._remarks += self._write_html(self._options.html)
        if self._write_errors and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.INTERRUPTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED  # a run that lost results did not go well
        if self._results or self._write_errors:
            if os.environ.get(STEP_SUMMARY):
                self._remarks += self._append_step_summary(exitstatus)
            if wants_results:
                from pytest_agentv.session.hooking.user_hooks import tell_summary  # noqa: PLC0415 - for who wants it

                verdict = self._section.contract() if self._section is not None else None
                self._remarks += tell_summary(session.config, self._results, verdict)

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if self._unasked:
            terminalreporter.write_line(unasked_line(self._unasked, self._options.run), yellow=True)
        if not (self._results or self._write_errors or self._remarks):
            return
        from pytest_agentv.reporting.summary import Outcomes, summary_lines  # noqa: PLC0415 - for runs with results

        lines = summary_lines(
            self._results,
            results_path=self._identity.results_path,
            dry_run=self._options.dry_run,
            elapsed_ms=self._elapsed_ms,
            earlier=self._run.earlier,
            outcomes=Outcomes(
                frozenset(self._outcomes.expected_failures),
                frozenset(self._outcomes.unexpected_passes),
                self._expected_words,
            ),
        )
        for line in itertools.chain(lines, self._section_lines()):
            _print(terminalreporter, line)
        if self._report is not None:
            terminalreporter.write_line(f"Report written to: {visible(locate(self._report, None))}")
        for remark in self._remarks:
            terminalreporter.write_line(visible(remark), yellow=True)
        lost = self._lost()
        if lost:
            terminalreporter.write_line(f"{_lost_text(lost)}:", red=True)
            for node_id in lost:
                terminalreporter.write_line(f"  {visible(node_id)}", red=True)
            terminalreporter.write_line("Run them with --agentv-resume.", red=True)
        for text in dict.fromkeys(self._write_errors):
            terminalreporter.write_line(f"Results were lost: {visible(text)}", red=True, bold=True)

    @property
    def _results(self) -> tuple[EvalResult, ...]:
        return self._run.results

    def _open_section(self, config: pytest.Config) -> "VerdictSection":
        from pytest_agentv.session.showing.verdict_section import VerdictSection  # noqa: PLC0415 - for who has repeats

        return VerdictSection(config, self._options, lambda: read_run(self._identity, self._outcomes.reported).results)

    def _section_lines(self) -> "Iterable[SummaryLine]":
        return self._section.lines() if self._section is not None else ()

    @property
    def _expected_words(self) -> str:
        return "failed as expected" if self._options.gate in ("cases", "off") else "judged with the run"

    def _write_html(self, path: Path) -> Iterator[str]:
        """Write the HTML report. Yield why that could not be done, if so."""
        from pytest_agentv.session.showing.html_report import write_html  # noqa: PLC0415 - for who wants it

        contract = self._section.contract() if self._section is not None else None
        if fault := write_html(path, self._run, self._identity.results_path, self._options, contract):
            yield fault
        else:
            self._report = path

    def _append_step_summary(self, exitstatus: int) -> Iterator[str]:
        """Append the verdict to the summary page. Yield why that could not be done, if so."""
        from pytest_agentv.reporting.markdown import RunVerdict  # noqa: PLC0415 - for CI only
        from pytest_agentv.session.showing.step_summary import append_step_summary  # noqa: PLC0415 - as above

        verdict = RunVerdict(
            self._results,
            self._run.earlier,
            frozenset(self._outcomes.expected_failures),
            self._expected_words,
            tuple(self._troubles(exitstatus)),
            self._identity.results_path,
            self._options.dry_run,
            self._elapsed_ms,
            tuple(line.text for line in self._section_lines()),
        )
        if fault := append_step_summary(verdict):
            yield fault

    def _troubles(self, exitstatus: int) -> "Iterator[Trouble]":
        """Yield what the results themselves do not tell."""
        from pytest_agentv.reporting.markdown import Trouble  # noqa: PLC0415 - as above

        if exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR):
            yield Trouble("The run broke off before its end")
        if self._section is not None:
            yield from (Trouble("The gate failed", (text,)) for text in self._section.red_texts())
        others = self._outcomes.failed_with_good_scores(self._results)
        if self._write_errors:
            yield Trouble("Results were lost", tuple(dict.fromkeys(self._write_errors)))
        elif others:
            yield Trouble("Failed outside of their evaluation (fixtures, strict `xfail`)", others)
        if lost := self._lost():
            yield Trouble(_lost_text(lost), tuple(lost))

    def _lost(self) -> list[str]:
        return self._crashes.lost(_node_ids(self._results)) if self._crashes else []

    def _drop_answers(self) -> None:
        """Delete the journal of single answers when no run will go on from it."""
        if not self._write_errors and answers_path(self._identity.results_path).is_file():
            from pytest_agentv.session.recording.answers import drop_answers  # noqa: PLC0415 - for repeated cases only

            results = read_run(self._identity).results
            drop_answers(self._identity.results_path, {(each.node_id, each.eval_id): each for each in results})

    def _record_crashes(self) -> None:
        """Write an error for each case on which a worker died: the worker could not."""
        if self._crashes is not None and self._crashes.has_crashes:
            recorded = _node_ids(read_run(self._identity).results)
            masker = Masker()
            masker.add_environment(os.environ)
            sink = ResultSink(self._identity.results_path, self._options.output_format, masker)
            self._append(tuple(map(sink.serialize, self._crashes.crash_results(recorded))))

    def _append(self, texts: Sequence[str]) -> None:
        if texts:
            try:
                self._sink.write_texts(texts)
            except AgentvError as error:
                self.report_loss(str(error))

    def _find_loss(self) -> None:
        """See whether all that ran is in the file."""
        path = self._identity.results_path
        is_readable = path.is_file() or not path.exists()  # nothing is read from a device
        if is_readable and not self._write_errors and (fault := self._outcomes.unrecorded(_node_ids(self._run.all))):
            self.report_loss(f"{fault} in {locate(path, None)}")


def _lost_text(lost: Sequence[str]) -> str:
    cases = "1 case was" if len(lost) == 1 else f"{len(lost)} cases were"
    return f"{cases} given to a worker that crashed, and not run again"


def _node_ids(results: Iterable[EvalResult]) -> set[str]:
    return {result.node_id for result in results if result.node_id is not None}


def _print(reporter: TerminalReporter, line: "SummaryLine") -> None:
    if line.style == "title":
        reporter.write_sep("=", line.text)
    else:
        reporter.write_line(line.text, **_MARKUP.get(line.style, {}))
