"""The one object that holds a run's state: options, engine, results."""

import os
import sys
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Final

import pytest

from pytest_agentv.engine.asking import ask_target
from pytest_agentv.engine.batching import BatchMember
from pytest_agentv.engine.fingerprints import Fingerprints
from pytest_agentv.engine.pacing import Pace
from pytest_agentv.engine.results import error_result
from pytest_agentv.engine.scheduler import Scheduler
from pytest_agentv.engine.targets import Places, TargetPool
from pytest_agentv.errors import AgentvError
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.loading.environment import find_repo_root
from pytest_agentv.loading.problems import Problem
from pytest_agentv.loading.suites import CaseEntry, SuiteSource
from pytest_agentv.models.option_values import MAX_WORKERS
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.secrets import Masker
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.reporting.escaping import shown
from pytest_agentv.reporting.writers import ResultSink
from pytest_agentv.runtime.loop import STOP_SECONDS, LoopThread, wait_for
from pytest_agentv.runtime.user_loop import USER_LOOP
from pytest_agentv.session.hooking.kinds import HookedKinds
from pytest_agentv.session.hooking.user_hooks import UserHooks
from pytest_agentv.session.options import run_options
from pytest_agentv.session.outcomes import show_warnings
from pytest_agentv.session.recording.identity import RunIdentity, run_identity
from pytest_agentv.session.recording.journal import FinishedCases
from pytest_agentv.session.recording.recorder import Recorder
from pytest_agentv.session.recording.travel import TravellingSink
from pytest_agentv.session.running.begun import Begun, Ending
from pytest_agentv.session.running.case_runs import CaseRuns
from pytest_agentv.session.running.limits import FailureLimit
from pytest_agentv.session.running.preparing import CasePreparer, PreparedCase
from pytest_agentv.session.running.signing import CaseSigner
from pytest_agentv.session.showing.logs import CaseLog, CaseLogHandler
from pytest_agentv.session.showing.masked_streams import MaskedStreams
from pytest_agentv.session.showing.progress import Progress
from pytest_agentv.session.workers.interrupts import Parent
from pytest_agentv.session.workers.shares import process_share, shared_folder

_KEY = pytest.StashKey["EvalSession"]()
_ALL_TARGETS: Final = ""
"""The group of all cases when `--agentv-workers` counts them together."""
_BATCHES: Final = "batches"
_NO_CALLS: Final = "no calls"
"""The group of cases that call nothing: broken ones and those that are carried over."""
_ONE_BY_ONE: Final = Pace(workers=1, is_batched=False)


class EvalSession:
    """Runs cases on the engine and records their results; created when the first eval file is collected."""

    def __init__(self, config: pytest.Config) -> None:
        self.options = run_options(config)
        self.identity: RunIdentity = run_identity(config, self.options)
        self.masker = Masker()
        self.masker.add_environment(os.environ)  # fixtures know these before any target does
        cwd = config.invocation_params.dir
        self._share = process_share(config)
        self._parent = Parent(config, self.identity.run_id)
        places = Places(
            find_repo_root(cwd), cwd, shared_folder(self.identity.run_id) if self._share.count > 1 else None
        )
        providers = HookedKinds("pytest_agentv_providers", config.hook.pytest_agentv_providers)
        evaluators = EVALUATORS.with_own(HookedKinds("pytest_agentv_evaluators", config.hook.pytest_agentv_evaluators))
        self.preparer = CasePreparer(config, self.options, places, self.identity.run_id, evaluators)
        self.user_hooks = UserHooks(config)
        self.failures = FailureLimit(config)
        self._loop = LoopThread()
        self._scheduler: Scheduler[EvalResult] = Scheduler(self._loop, may_start=lambda: self.runs_on)
        self._pool = TargetPool(self.options, places, self.masker, providers)
        self._signer = CaseSigner(Fingerprints(self._pool, places, dry_run=self.options.dry_run), self._loop)
        sink = ResultSink(self.identity.results_path, self.options.output_format, self.masker)
        home = self.identity.home
        self._travelling = None if home is None or home.is_here() else TravellingSink(sink)
        self._recorder = Recorder(self._travelling or sink)
        self._finished = FinishedCases(
            self.identity, with_errors=not self.options.retry_errors, is_worker=hasattr(config, "workerinput")
        )
        self._paces: dict[tuple[str, str], Pace] = {}
        self._shown: set[Problem] = set()
        self.progress = Progress(config)
        self._runs = CaseRuns(
            pool=self._pool,
            recorder=self._recorder,
            progress=self.progress,
            failures=self.failures,
            identity=self.identity,
        )
        self._log_handler = CaseLogHandler(config, self.masker)
        self._log_handler.install(verbose=self.options.verbose)
        self._streams = MaskedStreams(config, self.masker)
        self._streams.install()

    @staticmethod
    def of(config: pytest.Config) -> "EvalSession":
        """Return the run's session, made for the first eval file. Raises `pytest.UsageError` for bad ini values."""
        session = config.stash.get(_KEY, None)
        if session is None:
            session = config.stash[_KEY] = EvalSession(config)
        return session

    @property
    def stop_reason(self) -> str | None:
        """Why nothing more is to be run, in one line that can be shown; None: go on."""
        reason = self._pool.stop_reason
        return None if reason is None else shown(reason, self.masker).partition("\n")[0]

    @property
    def runs_on(self) -> bool:
        """Whether cases may be begun whose turn has not come: the run is not about to stop."""
        return not (
            self._runs.is_ending
            or self._pool.stop_reason is not None
            or self.write_error is not None
            or self.failures.is_reached
        )

    @property
    def unfinished(self) -> int:
        """Cases that were begun and are not done."""
        return self._scheduler.unfinished

    def is_selected(self, suite: SuiteSource, entry: CaseEntry) -> bool:
        """Whether the options let a case run: `--agentv-eval-id`, `--agentv-retry-errors`."""
        if self.options.eval_id and entry.eval_id not in self.options.eval_id:
            return False
        retried = self.identity.retried
        return retried is None or (self.preparer.eval_file(suite), entry.eval_id) in retried

    @property
    def write_error(self) -> str | None:
        """Why results could not be written."""
        return self._recorder.error

    def stop_if_needed(self, session: pytest.Session) -> None:
        """End the run after the current item when its target is not well, or its results are lost."""
        if self.stop_reason is not None:
            session.shouldstop = f"agentv: {self.stop_reason}"
        elif self.write_error is not None:
            session.shouldfail = f"agentv: {_lost_text(self.write_error)}"

    def pack(self, node_id: str, report: pytest.TestReport) -> None:
        """Give the lines of an item's results to its report, where this process cannot write to the file."""
        if self._travelling is not None:
            self._travelling.pack(node_id, report)

    @property
    def unpacked(self) -> str | None:
        """The lines that no report took along."""
        return None if self._travelling is None else self._travelling.rest()

    def begin(self, prepared: PreparedCase, member: BatchMember | None = None, *, is_repeated: bool = False) -> Begun:
        """Hand a case to the engine, which runs it when there is room; members of a batch always have room."""
        self._recorder.probe()
        prepared = self._signer.sign(prepared)
        if self.write_error is not None and member is None:  # the others of a batch wait for each member
            prepared = _unrecordable(prepared, self.write_error)
        job, log, ending = prepared.job, CaseLog(), Ending()
        if isinstance(job, EvalResult):
            broken = job
            future = self._scheduler.submit(
                lambda: self._runs.give_up(broken, prepared, log), group=_NO_CALLS, limit=MAX_WORKERS
            )
            return Begun.of(future, 1, prepared, log)
        carried = None if is_repeated else self._finished.take(job)
        if carried is not None:
            known = carried
            future = self._scheduler.submit(
                lambda: self._runs.carry_over(known, prepared, log, member), group=_NO_CALLS, limit=MAX_WORKERS
            )
            return Begun.of(future, 1, prepared, log)
        limit = self.limit(prepared)
        if member is not None:
            group, room = _BATCHES, sys.maxsize
        else:
            group, room = _ALL_TARGETS if self.options.workers else job.identity.target, limit
        future = self._scheduler.submit(
            lambda: self._runs.run(job, prepared, log, ending, member), group=group, limit=room
        )
        return Begun.of(future, limit, prepared, log, ending)

    def limit(self, prepared: PreparedCase) -> int:
        """Return how many cases of a case's kind may be in flight in this process."""
        return self._share.of(self.pace(prepared).limit(self.options))

    def pace(self, prepared: PreparedCase) -> Pace:
        """Return how a case's target wants its cases; one that cannot be used will be told by the case itself."""
        job = prepared.job
        if isinstance(job, EvalResult) or prepared.own.replace_target:
            return _ONE_BY_ONE
        folder, target = key = os.path.dirname(job.case.path), job.identity.target  # noqa: PTH120 - for each case, twice
        if key not in self._paces:
            try:
                self._paces[key] = self._loop.run(self._pool.pace(Path(folder), target))
            except (AgentvError, OSError):
                self._paces[key] = _ONE_BY_ONE
        return self._paces[key]

    def urge(self, begun: Begun) -> None:
        """Run a case now, whatever the limit: its turn has come."""
        self._end_without_parent()
        self._scheduler.urge(begun.future)

    def give_way(self) -> None:
        """Let the cases in flight go on before this thread does."""
        self._loop.give_way()

    def finish_case(self, begun: Begun, while_waiting: Callable[[], None]) -> EvalResult:
        """Wait for a case's result."""

        def wait() -> None:
            self._end_without_parent()
            while_waiting()
            self.progress.show(self._scheduler.in_flight)

        result = wait_for(begun.future, wait)
        self.give_way()
        self.progress.clear()
        return result

    def end_case(self, begun: Begun, reason: str, *, is_run_ending: bool) -> EvalResult | None:
        """Cancel a case whose item was ended, and return the result that says so; None: it does not come to its end.

        The run may end as well: then all cases are cancelled together, since each may take a moment.
        """
        self._runs.is_ending |= is_run_ending
        begun.ending.ask(self._loop, reason)
        if is_run_ending:
            self._loop.cancel_all()
        self.progress.clear()
        return _result_soon(begun)

    def record(self, prepared: PreparedCase) -> EvalResult | None:
        """Write the result of a case that cannot be run and return it; None: the run has ended."""
        begun = self.begin(prepared)
        self._scheduler.urge(begun.future)
        return _result_soon(begun)

    def drop(self, begun: Begun) -> None:
        """Cancel a case that was begun ahead and whose item is not run; it gets no result."""
        if not self._scheduler.drop(begun.future):
            begun.ending.ask(self._loop, None)

    def show_warnings(self, begun: Begun) -> None:
        """Show what was odd about a case's files. Raises `AgentvWarning` where the project makes errors of these."""
        warnings = [*self._pool.warnings, *self.user_hooks.warnings]
        self._pool.warnings, self.user_hooks.warnings = [], []
        # What is odd about the file as a whole comes with each of its cases, and is said once.
        new = [problem for problem in (*begun.problems, *warnings) if problem not in self._shown]
        self._shown.update(new)
        show_warnings(new, self.masker)

    def resume_starting(self) -> None:
        """Start what waits: an item's turn is over, and what its case did may not count as a failure."""
        self._scheduler.start_waiting()

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller is an event loop's: it must not wait for anything."""
        return self._loop.is_current or USER_LOOP.is_current

    def ask(self, eval_dir: Path, target: str, prompt: str) -> ProviderResponse:
        """Ask a target something that belongs to no case. Raises `AgentvError`."""
        return self._loop.run(ask_target(self._pool, self.options, eval_dir, target, prompt))

    def finish(self) -> None:
        """Cancel what still runs, close the targets, end the loop and close the results file."""
        if self._loop.is_running:
            self._runs.is_ending = True
            self._loop.cancel_all()
            self._loop.run(self._pool.close())
            self._loop.stop()
        self._recorder.close()
        self._log_handler.remove()
        self._streams.remove()

    def _end_without_parent(self) -> None:
        """End a worker whose controller is at its end: nobody would learn of what it goes on paying for."""
        if self._parent.is_gone():
            self._runs.is_ending = True
            pytest.exit("the controller of this worker is gone")


def _result_soon(begun: Begun) -> EvalResult | None:
    """Wait for the result of a case that is about to end."""
    try:
        return begun.future.result(timeout=STOP_SECONDS)
    except (TimeoutError, CancelledError):
        return None


def _unrecordable(prepared: PreparedCase, reason: str) -> PreparedCase:
    """Return a case that calls nothing: its result would be lost."""
    job = prepared.job
    if isinstance(job, EvalResult):
        return prepared
    dry_run = job.options.dry_run
    broken = error_result(job.identity, "setup", "config", _lost_text(reason), dry_run=dry_run)
    return prepared.replace(job=broken.replace(duration_ms=0.0))


def _lost_text(reason: str) -> str:
    return f"results cannot be recorded: {reason}"
