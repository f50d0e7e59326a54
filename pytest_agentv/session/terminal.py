"""Prints the end of a run, owns its results file and sets its exit code, in the one process that owns the terminal."""

import os
import shlex
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_agentv.errors import AgentvError, locate
from pytest_agentv.model.base import JsonObject, counted
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.figures import SummaryLine, visible
from pytest_agentv.reports.summary import FULL_SUMMARY, summary_lines, waiting_hint
from pytest_agentv.reports.view import NO_VERDICT, RunView, Trouble, ending_of
from pytest_agentv.runtime.files import InUse
from pytest_agentv.session.compat import TerminalReporter, drop_phases, items_of, junit_case, title_errors
from pytest_agentv.session.identity import (
    RECORDS,
    RunIdentity,
    refuse_in_worker,
    run_identity,
    send_to_worker,
    unpack,
)
from pytest_agentv.session.item_outcomes import (
    EVALUATED,
    ItemOutcomes,
    held_text,
    ignored_text,
    lost_text,
    start_of,
)
from pytest_agentv.session.on_request import NOT_ASKED, send_named, unasked_line
from pytest_agentv.session.options import run_options
from pytest_agentv.session.outcomes import may_be_eval, uncollected_text
from pytest_agentv.session.run_results import KnownLines, RunResults, read_run, recorded_now
from pytest_agentv.session.workers import WORKER_NUMBER, CrashWatch, EndingInterrupt, WorkerNumbers
from pytest_agentv.store.readers import REPORT, RESULTS, foreign_fault
from pytest_agentv.store.writers import ResultSink, verdict_path

if TYPE_CHECKING:
    from pytest_agentv.session.gates import RunGate


# Writes and checks the results file in the process that owns the terminal.


class ResultsHome:
    """Writes the lines that workers could not write, and checks that all results are in the file."""

    def __init__(
        self, identity: RunIdentity, options: RunOptions, at_end: Callable[[Callable[[], None]], None]
    ) -> None:
        """`at_end` takes what is to be called when pytest ends."""
        self._identity = identity
        self._options = options
        self._sink = ResultSink(identity.results_path, options.output_format, Masker())
        self.write_errors: list[str] = []
        """Why results were lost."""
        self._crashes: CrashWatch | None = None
        self._in_use = InUse()
        at_end(self._in_use.end)

    def check(self, ids: Iterable[str], root: Path) -> None:
        """Check that the run may resume its file and writes to none of its inputs. Raises `pytest.UsageError`."""
        resumed = self._identity.resumed
        files = {node_id.partition("::")[0] for node_id in ids}
        if resumed is not None and (fault := resumed.foreign_fault(files, root)):
            raise pytest.UsageError(fault)
        collected, out, html = {root / file for file in files}, self._options.out, self._options.html
        for flag, path, begin in (("--agentv-out", out, RESULTS), ("--agentv-html", html, REPORT)):
            if path is not None:
                fault = "is an eval file of this run" if path.absolute() in collected else foreign_fault(path, begin)
                if fault is not None:
                    raise pytest.UsageError(f"{flag}: {locate(path, None)} {fault}, which this would spoil")

    def begin(self) -> None:
        """Delete the verdict on an earlier run. Raises `pytest.UsageError` if no results can be written."""
        try:
            self._sink.probe()
        except AgentvError as error:
            hint = "" if self._options.out or self._options.resume else " (--agentv-out names a file)"
            raise pytest.UsageError(f"no results can be recorded: {error}{hint}") from None
        finally:
            self._sink.close()  # another process may write the results
        self._in_use.begin(self._identity.results_path)  # a run that resumed it now would pay for the same cases
        self.drop_verdict()  # a failure is reported at the end of the run

    def append(self, texts: Sequence[str]) -> None:
        if texts:
            try:
                self._sink.write_texts(texts)
            except AgentvError as error:
                self.write_errors.append(str(error))

    def close(self, crashes: "CrashWatch | None") -> None:
        """Write an error for each case that a worker died on, because the worker could not, and close the file."""
        self._crashes = crashes
        if crashes is not None and crashes.has_crashed:
            recorded = list(recorded_now(self._identity))
            written = {(result.node_id, result.eval_id) for result in recorded}
            older = [each for each in read_run(self._identity).results if (each.node_id, each.eval_id) not in written]
            masker = Masker.of_environment()
            sink = ResultSink(self._identity.results_path, self._options.output_format, masker)
            self.append(tuple(map(sink.serialize, crashes.crash_results(node_ids(recorded), older))))
        self._sink.close()

    def lost(self, run: RunResults) -> tuple[str, ...]:
        return tuple(self._crashes.lost(node_ids(run.results))) if self._crashes is not None else ()

    def find_loss(self, run: RunResults, outcomes: ItemOutcomes) -> None:
        """Check that the results of all cases that ran are in the file."""
        path = self._identity.results_path
        is_readable = path.is_file() or not path.exists()  # a device cannot be read back
        if (
            is_readable
            and not self.write_errors
            and (fault := outcomes.unrecorded(node_ids(run.results), locate(path, None)))
        ):
            self.write_errors.append(fault)

    def drop_verdict(self) -> str | None:
        """Delete the verdict on an earlier run. Return why it cannot be deleted."""
        path = verdict_path(self._identity.results_path)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            return f"{locate(path, None)}: the verdict on an earlier run cannot be deleted: {error.strerror}"
        return None


def node_ids(results: Iterable[EvalResult]) -> set[str]:
    return {result.node_id for result in results if result.node_id is not None}


# The summary page of a GitHub step, and annotations at the lines of cases.

_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
_GITHUB: Final = (_SUMMARY, "GITHUB_ACTIONS")
"""Variables that make a run show the findings of all cases, also of passing ones with low scores."""
_FILE_LIMIT: Final = 1_048_576
"""In bytes. GitHub shows nothing of a longer file."""


def tell_github(
    view: RunView, statistics: Iterable[SummaryLine], results_path: Path
) -> tuple[list[str], Sequence[str]]:
    """Write the summary page. Return its faults, and the lines of the log that become annotations."""
    from pytest_agentv.reports.ci import (  # noqa: PLC0415 - only in CI
        MARKDOWN_LIMIT,
        annotation_lines,
        markdown_lines,
    )

    masker, faults = Masker.of_environment(), []
    if name := os.environ.get(_SUMMARY):
        path = Path(name)
        try:
            size = path.stat().st_size if path.exists() else 0
            limit = min(MARKDOWN_LIMIT, _FILE_LIMIT - size - len("\n\n"))
            texts = [line.text for line in statistics]
            lines = markdown_lines(view, masker, limit, results_path=results_path, statistics=texts)
            if text := "".join(f"{line}\n" for line in lines):
                with path.open("a", encoding="utf-8", newline="\n") as file:
                    file.write(f"\n\n{text}" if size else text)
            else:
                faults.append(f"{_SUMMARY}: {visible(name)} is full, so this run's verdict was not added to it")
        except OSError as error:
            faults.append(f"{_SUMMARY}: {visible(name)} cannot be written: {error.strerror or error}")
    return faults, tuple(annotation_lines(view, masker)) if os.environ.get("GITHUB_ACTIONS") else ()


# Prints the end of a run and sets its exit code, in the one process that owns the terminal.

_ITEMS: Final = 500
"""The number of items after which reports are freed."""
_ATTRIBUTES: Final = {"agentv_file": "file", "agentv_line": "line"}
"""What pytest leaves out of its default family of JUnit files, `xunit2`, by the properties that have it."""
_MARKUP: Final[Mapping[str, Mapping[str, bool]]] = {
    "error": {"red": True, "bold": True},
    "fail": {"red": True},
    "pass": {"green": True},
    "warning": {"yellow": True},
    "heading": {"bold": True},
}
_TITLES: Final = {
    "setup": "the case could not be set up",
    "provider": "target gave no answer",
    "evaluator": "judge gave no judgement",
    "user_at_fault": "the simulated user is at fault",
}
"""What broke, by the kind or the stage of the error."""


class RunReporter:
    """Prints the summary of a run from the lines in its results file. So it is the same with and without workers."""

    NAME: Final = "agentv-reporter"

    def __init__(self, config: pytest.Config, identity: RunIdentity, options: RunOptions) -> None:
        self._terminal: TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
        self._config = config
        self._is_checked = self._is_broken_off = False
        self._identity = identity
        self._options = options
        self._started, self._cpu_started = time.perf_counter(), time.process_time()
        self._elapsed_ms = self._cpu_ms = 0.0
        self.notes: list[str] = []
        """Lines to show below the summary."""
        self._crashes: CrashWatch | None = None
        self._numbers = WorkerNumbers()
        self._outcomes = ItemOutcomes()
        self._run = RunResults()
        self.known: KnownLines | None = None
        """The lines of the results file that this process wrote."""
        self._home = ResultsHome(identity, options, config.add_cleanup)
        self._remarks: list[str] = []
        self._section = self._open_section(config) if options.judges_run else None
        self._report: Path | None = None  # the HTML report, once it is written
        self._annotations: Sequence[str] = ()
        self._finished = self._unasked = 0  # items, and cases that were skipped because nobody asked for them

    @classmethod
    def register(cls, config: pytest.Config, identity: RunIdentity, options: RunOptions) -> "RunReporter":
        """Return the run's reporter, registered as a plugin of its own."""
        reporter = config.pluginmanager.get_plugin(cls.NAME)
        if not isinstance(reporter, cls):
            reporter = cls(config, identity, options)
            config.pluginmanager.register(reporter, cls.NAME)
            reporter._outcomes.join(config, reporter._terminal)
            if reporter._terminal is not None:
                config.pluginmanager.register(EndingInterrupt(reporter._terminal, identity.results_path))
        return reporter

    def configure_worker(self, node: Any) -> None:
        """Act as the controller for a worker that is about to start."""
        if self._crashes is None:
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
        self._home.append(tuple(unpack(output.get(RECORDS))))
        if (error := output.get("agentv_write_error")) is not None:
            self.report_loss(error)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: Any) -> Generator[None, None, None]:
        """Take the data out of a report, show a case's details, and give a JUnit case the place of its eval."""
        self._outcomes.note(report)
        self._unasked += report.skipped and NOT_ASKED in str(report.longrepr)
        packed = getattr(report, RECORDS, None)
        if packed is not None:
            delattr(report, RECORDS)  # plugins that send reports elsewhere must not send it
            self._home.append(tuple(unpack(packed)))
        text = getattr(report, "agentv_verbose", None)
        if text is not None and self._terminal is not None:
            if self._terminal.config.get_terminal_writer().width_of_current_line:
                self._terminal.write_line("")
            self._terminal.write_line(text)
        places = {name: value for name, value in report.user_properties if name in _ATTRIBUTES}
        case = junit_case(self._config, report) if places and report.when == "teardown" else None
        yield
        if case is not None:
            element = case.to_xml()  # finished already, and the same object each time
            for name, value in places.items():
                element.set(_ATTRIBUTES[name], str(value))

    def pytest_runtest_logfinish(self) -> None:
        """Free the reports of cases that have nothing to show: pytest would keep three per case, and shows one."""
        self._finished += 1
        if self._terminal is not None and self._finished % _ITEMS == 0:
            drop_phases(self._terminal, EVALUATED)

    def report_loss(self, error: str) -> None:
        self._home.write_errors.append(error)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.check(ids)

    def check(self, ids: Sequence[str]) -> None:
        """Check, before anything is paid for, that the run can use its files. Raises `pytest.UsageError`."""
        if self._is_checked:
            return
        self._is_checked = True
        self._home.check(ids, self._config.rootpath)
        if any(map(may_be_eval, ids)):
            self.check_verdict(ids)
            self._home.begin()

    def check_verdict(self, ids: Sequence[str]) -> None:
        """Check that the run can be judged, and delete the verdict on an earlier run. Raises `pytest.UsageError`."""
        if self._section is not None:
            self._section.check(ids)
            self._home.drop_verdict()  # a failure is reported at the end of the run

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if session.config.getoption("collectonly") or exitstatus == pytest.ExitCode.USAGE_ERROR:
            return
        self._is_broken_off = exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
        self._home.close(self._crashes)
        wants_results = bool(session.config.hook.pytest_agentv_summary.get_hookimpls())
        with_texts = wants_results or self._options.html is not None or any(map(os.environ.get, _GITHUB))
        self._run = self._read(with_texts=with_texts)  # --agentv-retry-errors has results even if nothing runs
        if self._terminal is not None:
            broken = ((each.node_id, each.error_detail) for each in self._run.results)
            titles = {
                node_id or "": _TITLES.get(detail.kind) or _TITLES[detail.stage]
                for node_id, detail in broken
                if detail is not None
            }
            title_errors(self._terminal, titles)
        self._elapsed_ms = (time.perf_counter() - self._started) * 1000
        self._cpu_ms = (time.process_time() - self._cpu_started) * 1000
        resumed = self._identity.resumed.remarks if self._identity.resumed else ()
        self._remarks = list(dict.fromkeys([*resumed, *map(str, self._run.problems)]))
        self._home.find_loss(self._run, self._outcomes)
        self._remarks += self._outcomes.remarks(self._run.results, self._identity.run_id, self._options)
        faults = list(self._outcomes.hidden_errors(self._run.results, session.exitstatus))
        self._remarks += faults
        if faults and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED  # a run with an error never passes
        if self._section is None and not self._options.dry_run and any(result.repeat for result in self._run.results):
            self._section = self._open_section(session.config)
        if self._section is not None:
            self._remarks += self._section.finish(self._run.results)
        elif self._run.results and (fault := self._home.drop_verdict()):
            self._remarks.append(fault)
        if (path := self._options.html) is not None:
            fault = self._write_html(path)
            self._report = path if fault is None else None
            self._remarks += [fault] if fault else []
        if self._home.write_errors and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.INTERRUPTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED  # a run that lost results never passes
        if not self._run.results and not self._home.write_errors:
            return
        if any(map(os.environ.get, _GITHUB)):
            remarks, self._annotations = tell_github(self._view, self._statistics, self._identity.results_path)
            self._remarks += remarks
        if wants_results:
            from pytest_agentv.session.user_hooks import tell_summary  # noqa: PLC0415 - imports the engine

            self._remarks += tell_summary(session.config, self._run.results, self._contract)

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Print the end of the run: its summary, notes, remarks in yellow, and commands to GitHub."""
        terminal, run, results_path = terminalreporter, self._run, self._identity.results_path
        lost, write_errors = self._home.lost(run), self._write_errors
        if self._unasked:
            terminal.write_line(unasked_line(self._unasked, self._options.run), yellow=True)
        if not (run.results or write_errors or self._remarks or lost):
            return
        lines = [
            *summary_lines(
                self._view,
                results_path=results_path,
                shown_errors=self._outcomes.failed if self._config.getoption("tbstyle", "auto") != "no" else (),
                with_statistics=self._config.get_verbosity() > 0 or bool(os.environ.get(FULL_SUMMARY)),
            )
        ]
        resumed = self._identity.resumed
        if resumed is not None and resumed.path != results_path:  # the user may not have named it
            lines.append(SummaryLine(f"Resumed from:       {locate(resumed.path, None)}"))
        if self._report is not None:
            lines.append(SummaryLine(f"Report written to: {visible(locate(self._report, None))}"))
        elif run.results:
            command = f"agentv report {shlex.quote(locate(results_path, None))} -o report.html"
            lines.append(SummaryLine(f"Report:             {command}"))
        for line in (*lines, *self._statistics):
            if line.style == "title":
                terminal.write_sep("=", line.text)
            else:
                terminal.write_line(line.text, **_MARKUP.get(line.style, {}))
        for note in self.notes:
            terminal.write_line(f"agentv: {visible(note)}")
        for hint in self._waiting_hints(terminal):
            terminal.write_line(visible(hint))
        for remark in self._remarks:
            terminal.write_line(visible(remark), yellow=True)
        if lost:
            terminal.write_line(f"{lost_text(lost)}:", red=True)
            for node_id in lost:
                terminal.write_line(f"  {visible(node_id)}", red=True)
            if run.results:
                terminal.write_line("Run them with --agentv-resume.", red=True)
        for text in write_errors:
            terminal.write_line(f"Results were lost: {visible(text)}", red=True, bold=True)
        for annotation in self._annotations:  # as the log must have them
            terminal.write_line(annotation)

    def _waiting_hints(self, terminal: TerminalReporter) -> Sequence[str]:
        """Return hints for a run whose cases waited one after another; none if it has a limit, or workers."""
        if self._options.workers is not None or self._crashes is not None or self._options.dry_run:
            return ()
        # `--agentv-workers` does not reach tests in Python.
        cases = {result.node_id: result for result in self._run.results if may_be_eval(result.node_id or "")}
        if waiting_hint(list(cases.values()), self._elapsed_ms, self._cpu_ms) is None:
            return ()
        from pytest_agentv.session.user_hooks import held_by  # noqa: PLC0415 - imports the engine

        items = [item for item in items_of(terminal) if item.nodeid in cases and isinstance(item, pytest.Function)]
        held = {item.nodeid: holder for item in items if (holder := held_by(item)) is not None}
        free = [result for node_id, result in cases.items() if node_id not in held]
        if hint := waiting_hint(free, self._elapsed_ms, self._cpu_ms):
            return (hint,)
        return [held_text(holder) for holder in dict.fromkeys(held.values()) if holder not in self._outcomes.held]

    def _write_html(self, path: Path) -> str | None:
        """Write the report of `--agentv-html` from the results; return why that could not be done."""
        from pytest_agentv.reports.html.page import write_run  # noqa: PLC0415 - only if asked for

        options, contract = self._options, self._contract
        if path.resolve() in {each.resolve() for each in (self._identity.results_path, options.baseline) if each}:
            return f"{locate(path, None)}: no report was written: this is the file of results that it would be made of"
        if not self._run.results:
            return f"{locate(path, None)}: no report was written: there are no results"
        is_judged = contract is not None and contract.get("verdict") != NO_VERDICT and options.update_baseline is None
        try:
            write_run(path, self._view, options.baseline if is_judged else None, options, start_of(self._config))
        except (AgentvError, OSError) as error:
            return f"the report was not written: {error}"
        return None

    @property
    def _contract(self) -> JsonObject | None:
        """The JSON of the verdict on the run; None: there is none."""
        return None if self._section is None else self._section.contract()

    @property
    def _statistics(self) -> Sequence[SummaryLine]:
        """The section EVALUATION STATISTICS."""
        return () if self._section is None else tuple(self._section.lines())

    @property
    def _write_errors(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._home.write_errors))

    @property
    def _view(self) -> RunView:
        run, outcomes, ending = self._run, self._outcomes, ending_of(self._contract)
        unexpected = outcomes.unexpected_passes.intersection(each.node_id or "" for each in run.results)
        ending = ending.replace(
            troubles=tuple(self._troubles(unexpected)),
            expected=frozenset(outcomes.expected_failures) - ending.judged_with_run,
            unexpected=frozenset(unexpected),
        )
        name, problems = self._identity.results_path.name, tuple(map(str, run.problems))
        return RunView(run.results, ending, name, (), run.replaced, problems, self._elapsed_ms)

    def _troubles(self, unexpected: Collection[str]) -> Iterator[Trouble]:
        """Yield problems beside the evaluations and their gates."""
        outcomes = self._outcomes
        if self._is_broken_off:
            yield Trouble("The run broke off before its end")
        if files := tuple(outcomes.uncollected):
            yield Trouble(uncollected_text(len(files)), files)
        if ignored := tuple(outcomes.ignored):
            yield Trouble(ignored_text(len(ignored)), ignored)
        others = [each for each in outcomes.failed_with_good_scores(self._run.results) if each not in unexpected]
        if write_errors := self._write_errors:
            yield Trouble("Results were lost", write_errors)
        elif others:
            yield Trouble(f"{counted(len(others), 'case')} failed outside of the evaluation", tuple(others))
        if lost := self._home.lost(self._run):
            yield Trouble(lost_text(lost), lost)

    def _open_section(self, config: pytest.Config) -> "RunGate":
        from pytest_agentv.session.gates import RunGate  # noqa: PLC0415 - only for runs with repeats or a gate

        return RunGate(config, self._options, self._identity, lambda: self._read().results)

    def _read(self, *, with_texts: bool = False) -> RunResults:
        of, known = self._outcomes, self.known
        return read_run(self._identity, of.reported, of.evaluated, with_texts=with_texts, known=known)


# The controller's part of an xdist run: it collects nothing, names the run, and owns the terminal.


def configure_worker(node: Any) -> None:
    """Tell a worker which run it is part of. Wrong ini values are reported by the workers, if they collect evals."""
    try:
        options = run_options(node.config)
    except pytest.UsageError:
        return
    try:
        identity = run_identity(node.config, options)
    except pytest.UsageError as error:
        refuse_in_worker(node, error)
        return
    RunReporter.register(node.config, identity, options).configure_worker(node)
