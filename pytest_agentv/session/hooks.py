"""The hooks of a run with eval files, registered when the first one is collected."""

import warnings
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest

from pytest_agentv.engine.jobs import choose_judge, choose_target
from pytest_agentv.files.source import folder_of
from pytest_agentv.model.options import MAX_WORKERS
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.figures import is_own_property, result_properties, visible
from pytest_agentv.session.flight import LOG_SECTION, Flight
from pytest_agentv.session.items import EvalItem
from pytest_agentv.session.lookahead import Lookahead
from pytest_agentv.session.masks import (
    is_masked,
    mask_account,
    mask_end,
    mask_properties,
    mask_sections,
    mask_suite_properties,
    mask_warning,
)
from pytest_agentv.session.outcomes import (
    EVALUATED,
    HEEDED,
    HELD,
    EvalErrored,
    EvalFailed,
    failed,
    is_evaluation,
    show_answers,
    shows_answers,
    verbose_text,
)
from pytest_agentv.session.selection import select_ids, select_retried, select_sample
from pytest_agentv.session.session import EvalSession
from pytest_agentv.session.terminal import RunReporter
from pytest_agentv.session.workers import PLACES

_NAME = "agentv-session"
_LOG_TITLE = f"Captured {LOG_SECTION} setup"


def participate(config: pytest.Config) -> EvalSession:
    """Return the run's session, and take part in the run from now on. Raises `pytest.UsageError` for bad ini values."""
    session = EvalSession.of(config)
    if not config.pluginmanager.has_plugin(_NAME):
        lookahead = Lookahead(config)
        session.flight = Flight(session, lookahead)
        config.pluginmanager.register(SessionHooks(config, session, lookahead), _NAME)
        if session.options.judges_run:
            from pytest_agentv.session.gates import JudgedCases  # noqa: PLC0415 - only for runs with a gate

            session.judged = JudgedCases(config, session.options)
            config.pluginmanager.register(session.judged)
        if not hasattr(config, "workerinput"):
            RunReporter.register(config, session.identity, session.options).known = session.known_lines
    return session


class SessionHooks:
    """Selects, annotates and finishes the run's eval items."""

    def __init__(self, config: pytest.Config, session: EvalSession, lookahead: Lookahead) -> None:
        self._config = config
        self._session = session
        self._lookahead = lookahead
        self._flight = session.flight
        self._collected: list[str] = []
        self._known_places = 0 if hasattr(config, "workerinput") else MAX_WORKERS
        """The number of places that xdist's controller knows."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Select by our options before other plugins select. Take the sample of the items that they leave."""
        self._collected = [item.nodeid for item in items]
        self._session.asking.learn(items, is_evaluation)
        cases = [item for item in items if isinstance(item, EvalItem)]
        counts = Counter(eval_id.casefold() for item in cases if (eval_id := item.entry.eval_id))
        self._session.preparer.ambiguous_ids = {eval_id for eval_id, count in counts.items() if count > 1}
        if self._session.options.eval_id:
            select_ids(config, items, self._session.options.eval_id)
        identity = self._session.identity
        if identity.retries_only and identity.resumed is not None:
            select_retried(config, items, identity.resumed, self._session.preparer.eval_file)
        yield
        if self._session.options.sample is not None:
            select_sample(config, items, self._session.options.sample)
        asking = self._session.asking
        for item in items:
            if isinstance(item, EvalItem) and asking.refuses(item.path, partial(self._is_paid, item)):
                item.add_marker(pytest.mark.skip(reason=asking.reason))
        sharding = config.pluginmanager.get_plugin("agentv-shard")
        if sharding is not None:
            self._session.preparer.shard = sharding.divide(items, cases)

    def _is_paid(self, item: EvalItem) -> bool:
        """Whether a case costs money as its file has it. A hook may change that when its turn comes."""
        session = self._session
        case = session.preparer.load(item.suite, item.entry)
        if case is None:
            return False
        target = choose_target(session.options, case.target)
        return session.spending.is_paid(case, target, item.stand_ins, choose_judge(session.options, case.judge))

    @property
    def _reporter(self) -> RunReporter:
        return RunReporter.register(self._config, self._session.identity, self._session.options)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if self._session.away is not None and not session.config.getoption("collectonly"):
            self._session.away.open()
        if not (hasattr(session.config, "workerinput") or session.config.getoption("collectonly")):
            self._reporter.check(self._collected)
        self._lookahead.remember(session.items)
        planned = self._session.preparer.planned
        self._session.progress.total = sum(
            planned(item.suite, item.entry) for item in session.items if isinstance(item, EvalItem)
        )

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        __tracebackhide__ = True
        self._lookahead.begin(nextitem)
        self._session.stopping.failures.begin(item)
        self._flight.let_others_end(item)
        try:
            return (yield)
        finally:
            if isinstance(item, EvalItem):
                item.result = None  # the file has it, and the item lives until the end of the run
            self._session.stopping.failures.end(item)
            self._flight.scheduler.start_waiting()  # the item's failure may count no more

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Make sure that each case has a result if its item was set up and not skipped."""
        __tracebackhide__ = True
        if isinstance(item, EvalItem):
            item.result, item.was_ended, item.properties = None, False, 0  # of the previous attempt
            forget_properties(item)
            self._session.learn_secrets(folder_of(item.path))
        try:
            return (yield)
        except BaseException as error:
            if isinstance(item, EvalItem) and not self._config.getoption("setuponly", False):
                self._flight.break_off(item, error)
            raise

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        if isinstance(item, EvalItem):
            return (yield)
        item.stash[_RUNS] = True
        try:
            return (yield)
        finally:
            item.stash[_RUNS] = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if isinstance(item, EvalItem):
            if call.excinfo is not None and item.account_of(call.excinfo.value) is not None:
                report.longrepr = item.repr_failure(call.excinfo)  # pytest shows failed set-ups with their traceback
            elif call.excinfo is not None and not isinstance(call.excinfo.value, EvalFailed):
                mask_account(report, self._session.masker)
            item.annotate(report)
            if self._flight.places > self._known_places:
                self._known_places = vars(report)[PLACES] = self._flight.places
            if self._lookahead.held:
                vars(report)[HELD] = list(self._lookahead.held)
            vars(report)[EVALUATED] = item.result is not None and report.when == "setup"
            if report.when == "teardown" and "agentv" in item.fixturenames:  # a fixture may evaluate as well
                tell_heed(item, report)
            if item.result is not None and self._session.options.verbose and report.when == "setup":
                # As an attribute of the report, it reaches the process that owns the terminal, also from a worker.
                log = dict(report.sections).get(_LOG_TITLE, "")
                vars(report)["agentv_verbose"] = verbose_text(item.result, log)
            if item.result is not None and report.when == "call" and report.passed and shows_answers(item.config):
                account = failed(item.config, item.result, self._session.masker, item.asked)
                show_answers(item.config, report, [str(account)])
        else:
            complete_report(item, call, report, self._session.masker, verbose=self._session.options.verbose)
        if item.has_foreign_properties() if isinstance(item, EvalItem) else is_masked(item):
            mask_properties(report, self._session.masker)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        mask_sections(report, self._session.masker)

    def pytest_enter_pdb(self, pdb: Any) -> None:
        """Show what a debugger prints in the function of a target at once."""
        pdb.stdout = getattr(pdb.stdout, "below", pdb.stdout)

    @pytest.hookimpl(tryfirst=True)
    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage) -> None:
        mask_warning(warning_message, self._session.masker)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_keyboard_interrupt(self) -> Generator[None, None, None]:
        yield
        mask_end(self._config.pluginmanager.get_plugin("terminalreporter"), self._session.masker)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._session.finish()
        mask_suite_properties(self._config, self._session.masker)
        if self._session.away is not None:
            self._reporter.notes += self._session.away.summary()
        error = self._session.recorder.error
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["agentv_write_error"] = error
        elif error is not None:
            self._reporter.report_loss(error)

    def pytest_unconfigure(self) -> None:
        self._session.finish()  # a run that broke off before its session started to finish
        self._session.stop_routing()


# Adds evaluations in Python to the reports of their tests.

_SECTION: Final = "Captured agentv call"


@dataclass(frozen=True, slots=True)
class Told:
    """A result and its failure text."""

    result: EvalResult
    account: str
    reads: Sequence[str]
    """What the test has read of the verdict."""


_TOLD: Final = pytest.StashKey[list[Told]]()
"""The evaluations of the current attempt of a test."""
_RUNS: Final = pytest.StashKey[bool]()
"""Whether a test runs: what is reported meanwhile is a part of it, as a subtest."""


def note_result(item: pytest.Item, result: EvalResult, account: str, reads: Sequence[str] = ()) -> None:
    item.stash[_TOLD].append(Told(result, account, reads))


def forget_properties(item: pytest.Item) -> None:
    """Remove our properties, so that a rerun does not add its own to them."""
    given = item.user_properties
    if given:
        given[:] = [each for each in given if not is_own_property(each)]


def forget_results(item: pytest.Item) -> None:
    """Forget earlier results, because the test may run again."""
    item.stash[_TOLD] = []
    forget_properties(item)


def complete_report(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, masker: Masker, *, verbose: bool
) -> None:
    told = item.stash.get(_TOLD, [])
    if is_masked(item):
        mask_account(report, masker)
    error = call.excinfo.value if call.excinfo is not None else None
    crash = getattr(report.longrepr, "reprcrash", None)
    if report.failed and isinstance(error, EvalErrored | EvalFailed) and crash is not None:
        crash.message = error.headline  # a fixture may evaluate as well
    # As attributes of the report, they reach the process that owns the terminal, also from a worker.
    added: dict[str, Any] = vars(report)
    tell_heed(item, report)
    if report.when != "call" or not told or item.stash.get(_RUNS, False):
        return  # a subtest has a report while its test runs; that of the test has the figures of all
    if not report.passed:
        item.stash[_TOLD] = []
    added[EVALUATED] = True
    if isinstance(error, EvalErrored):
        added["agentv_errored"] = True
    if verbose:
        added["agentv_verbose"] = "\n".join(verbose_text(each.result, "") for each in told)
    if report.failed:  # the account of the evaluation that failed the test is shown already
        bad = [each for each in told if each.result.status != "pass" and each.account != str(error)]
        texts = [f"{visible(each.result.eval_id)}\n\n{each.account}\n" for each in bad]
        report.sections += [(_SECTION, "\n".join(texts))] if texts else []
    if report.passed and shows_answers(item.config):
        show_answers(item.config, report, [each.account for each in told if each.result.status == "pass"])
    if len(told) == 1:  # several results would repeat the names of properties
        item.user_properties += result_properties(told[0].result)
        report.user_properties = list(item.user_properties)


def tell_heed(item: pytest.Item, report: pytest.TestReport) -> None:
    """Tell with the last report of an item whether it looked at the verdicts of its evaluations that failed."""
    failed = [each for each in item.stash.get(_TOLD, []) if each.result.status == "fail"]
    if report.when == "teardown" and failed:
        vars(report)[HEEDED] = all(each.reads for each in failed)
