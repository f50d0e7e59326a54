"""Prints the end of a run, owns its results file and sets its exit code, in the one process that owns the terminal."""

import itertools
import os
import shlex
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
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
from pytest_agentv.session.compat import TerminalReporter, drop_phases, items_of, junit_case, title_errors
from pytest_agentv.session.identity import RunIdentity, run_identity, send_to_worker
from pytest_agentv.session.options import run_options
from pytest_agentv.session.outcomes import (
    EVALUATED,
    HEEDED,
    HELD,
    NOT_ASKED,
    may_be_eval,
    retold,
    start_of,
    uncollected_text,
)
from pytest_agentv.session.run_results import KnownLines, ResultsHome, RunResults, read_run
from pytest_agentv.session.workers import WORKER_NUMBER, CrashWatch
from pytest_agentv.store.writers import json_safe

if TYPE_CHECKING:
    from pytest_agentv.session.gates import RunGate


# pytest's outcomes of the items with evaluations.

_STRICT: Final = "[XPASS(strict)]"


class ItemOutcomes:
    """pytest's outcomes of the items. They may differ from the scores, for example because of marks."""

    def __init__(self) -> None:
        self.expected_failures: set[str] = set()
        """Items whose low scores do not fail them: a mark excuses them, or their test has decided so."""
        self.unexpected_passes: set[str] = set()
        """Node ids of items with a strict `xfail` mark that passed."""
        self.reported: dict[str, str] = {}
        """The node ids of the items, mapped to themselves, so that results read later can share these strings."""
        self.uncollected: dict[str, None] = {}
        """The files that could not be collected. The outcomes of their cases are unknown."""
        self.evaluated: dict[str, None] = {}
        self._decided: set[str] = set()
        """Tests that passed after they had looked at the verdict of each evaluation that failed."""
        self.ignored: dict[str, None] = {}
        """Tests that passed because they did not look at the verdict of an evaluation that failed."""
        self.failed: dict[str, None] = {}
        """Items that failed, and that pytest explains in full."""
        self.held: dict[str, None] = {}
        """The hooks that kept cases from running ahead of their turn."""

    def join(self, config: pytest.Config, terminal: Any) -> None:
        """Observe all further collection. The terminal knows the errors before the first eval file."""
        earlier = terminal.stats.get("error", ()) if terminal is not None else ()
        for report in earlier:
            if isinstance(report, pytest.CollectReport):
                self.pytest_collectreport(report)
        config.pluginmanager.register(self)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        headline = getattr(report, "agentv_headline", None)
        if headline is not None and isinstance(report.longrepr, str):  # all that a worker sends
            report.longrepr = retold(report.longrepr, headline, (report.nodeid, 1))
        if report.failed:
            self.uncollected[report.nodeid] = None

    def note(self, report: Any) -> None:
        node_id = str(json_safe(report.nodeid))  # as in the record: a folder's name may be no UTF-8
        self.reported.setdefault(node_id, node_id)
        self.held.update(dict.fromkeys(getattr(report, HELD, ())))
        if getattr(report, EVALUATED, False):
            self.evaluated[node_id] = None
        if report.passed:
            is_heeded = getattr(report, HEEDED, None)
            if is_heeded is None or node_id in self.failed:
                return
            if is_heeded:
                self._decided.add(node_id)
                self.expected_failures.add(node_id)
            else:
                self.ignored[node_id] = None
            return
        if report.failed and str(report.longrepr or "").startswith(_STRICT):
            self.unexpected_passes.add(node_id)
        if report.failed:
            self.failed[node_id] = None
        elif report.skipped and hasattr(report, "wasxfail"):
            self.expected_failures.add(node_id)

    def remarks(self) -> Iterator[str]:
        """Yield texts on what the results do not show: tests and hooks that make more or less of them."""
        if self.ignored:
            how = "write `assert agentv.run(…)`, or call `.assert_passed()`"
            yield f"{ignored_text(len(self.ignored))}: {', '.join(self.ignored)} ({how})"
        yield from map(held_text, self.held)

    def hidden_errors(self, results: Sequence[EvalResult], exit_code: int) -> Iterator[str]:
        """Yield texts on cases that could not be judged, if pytest shows no error because of a mark or a test.

        If the run would be green, the errors of an earlier run that its file goes on with count as well.
        """
        broken = dict.fromkeys(each.node_id for each in results if each.status == "error")
        hidden = [node_id for node_id in broken if node_id in self.reported and node_id not in self.failed]
        excused = self.expected_failures - self._decided
        marked = [node_id for node_id in hidden if node_id in excused]
        others = [node_id for node_id in hidden if node_id not in excused]
        is_green = exit_code == pytest.ExitCode.OK
        left = [node_id for node_id in broken if is_green and node_id not in self.reported]
        for node_ids, why in (
            (marked, "which its mark `xfail` does not excuse"),
            (others, "but its test went on"),
            (left, "and this run did not ask it again"),
        ):
            if node_ids:
                yield f"a case could not be judged, {why}, so the run fails: {', '.join(map(str, node_ids))}"

    def failed_with_good_scores(self, results: Sequence[EvalResult]) -> tuple[str, ...]:
        """Return the node ids of items that failed although all their results passed, in order."""
        known = {result.node_id for result in results}
        not_passed = {result.node_id for result in results if result.status != "pass"}
        return tuple(node_id for node_id in self.failed if node_id in known and node_id not in not_passed)


def ignored_text(tests: int) -> str:
    return f"{counted(tests, 'test')} passed although an evaluation failed, because nothing looks at its verdict"


def held_text(holder: str) -> str:
    how = "use pytest_collection_modifyitems, marks or session-scoped fixtures instead"
    return f"cases ran one after another, because {holder}, which may skip them or change what they see: {how}"


def lost_text(lost: Sequence[str]) -> str:
    cases = counted(len(lost), "case was", "cases were")
    return f"{cases} not run, because a worker crashed"


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
        self._crashes: CrashWatch | None = None
        self._numbers = itertools.count()
        self._outcomes = ItemOutcomes()
        self._run = RunResults()
        self.known: KnownLines | None = None
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
        return reporter

    def configure_worker(self, node: Any) -> None:
        """Act as the controller for a worker that is about to start."""
        if self._crashes is None:
            self._crashes = CrashWatch(node.config, self._identity, self._options)
            node.config.pluginmanager.register(self._crashes)
            if self._section is not None:
                self._section.has_crashes = lambda: self._crashes is not None and self._crashes.has_crashed
        node.workerinput[WORKER_NUMBER] = next(self._numbers)
        send_to_worker(self._identity, node)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if (error := getattr(node, "workeroutput", {}).get("agentv_write_error")) is not None:
            self.report_loss(error)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: Any) -> Generator[None, None, None]:
        """Note an outcome, show a case's details, and give a JUnit case the place of its eval."""
        self._outcomes.note(report)
        self._unasked += report.skipped and NOT_ASKED in str(report.longrepr)
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
        self._home.write_errors[error] = None

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
        self._home.add_crashes(self._crashes)
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
        self._home.find_loss(self._run, self._outcomes.evaluated)
        self._remarks += self._outcomes.remarks()
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
        lost, write_errors = self._home.lost(run), tuple(self._home.write_errors)
        if self._unasked:
            cases = counted(self._unasked, "eval case was", "eval cases were")
            how = "--agentv-run, or their files or folders on the command line, asks for them"
            terminal.write_line(f"{cases} skipped (agentv_run = {self._options.run}): {how}", yellow=True)
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
        if self._home.write_errors:
            yield Trouble("Results were lost", tuple(self._home.write_errors))
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
    RunReporter.register(node.config, run_identity(node.config, options), options).configure_worker(node)
