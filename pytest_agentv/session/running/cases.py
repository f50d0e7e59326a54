"""The cases of a run that were begun: the one place that starts, waits for, cancels and remembers them."""

import sys
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Final

from pytest_agentv.engine.results import error_result
from pytest_agentv.engine.scheduler import Scheduler
from pytest_agentv.models.option_values import MAX_WORKERS
from pytest_agentv.models.results import EvalResult
from pytest_agentv.runtime.loop import STOP_SECONDS, LoopThread, wait_for
from pytest_agentv.session.recording.journal import FinishedCases
from pytest_agentv.session.recording.recorder import Recorder
from pytest_agentv.session.running.begun import Begun, Ending
from pytest_agentv.session.running.case_runs import CaseRuns
from pytest_agentv.session.running.paces import Paces
from pytest_agentv.session.running.preparing import PreparedCase
from pytest_agentv.session.running.signing import CaseSigner
from pytest_agentv.session.running.stopping import Stopping, lost_text
from pytest_agentv.session.showing.logs import CaseLog
from pytest_agentv.session.showing.progress import Progress

if TYPE_CHECKING:  # for batches only
    from pytest_agentv.engine.batching import BatchMember

_ALL_TARGETS: Final = ""
"""The group of all cases when `--agentv-workers` counts them together."""
_BATCHES: Final = "batches"
_NO_CALLS: Final = "no calls"
"""The group of cases that call nothing: broken ones and those that are carried over."""


class Cases:
    """Hands cases to the engine and waits for them. Called by pytest's thread, and by threads that a test starts."""

    def __init__(
        self,
        *,
        loop: LoopThread,
        runs: CaseRuns,
        paces: Paces,
        signer: CaseSigner,
        finished: FinishedCases,
        recorder: Recorder,
        stopping: Stopping,
        progress: Progress,
    ) -> None:
        self.paces = paces
        self._loop = loop
        self._runs = runs
        self._signer = signer
        self._finished = finished
        self._recorder = recorder
        self._stopping = stopping
        self._progress = progress
        self._scheduler: Scheduler[EvalResult] = Scheduler(loop, may_start=lambda: stopping.runs_on)
        self._beginning = threading.Lock()  # one test may begin cases in several threads
        self._open: dict[Hashable, Begun] = {}
        """Begun, and not yet waited for."""
        self._known: set[Hashable] = set()

    def __contains__(self, key: object) -> bool:
        """Whether a case was begun in this run, once or more."""
        return key in self._known

    @property
    def unfinished(self) -> int:
        """How many cases were begun and are not done."""
        return self._scheduler.unfinished

    def begin(self, key: Hashable, prepared: PreparedCase, member: "BatchMember | None" = None) -> Begun:
        """Hand a case to the engine, which starts it when there is room. One that was begun before is asked anew."""
        with self._beginning:
            is_repeated = key in self._known
            self._known.add(key)
            begun = self._open[key] = self._submit(prepared, member, is_repeated=is_repeated)
        if member is not None:
            self._scheduler.start_now(begun.future)  # the others of its batch wait for each member
        return begun

    def take(self, key: Hashable) -> Begun | None:
        """Return a case that was begun and not yet taken."""
        return self._open.pop(key, None)

    def wait(self, begun: Begun, while_waiting: Callable[[], None] = lambda: None) -> EvalResult:
        """Start a case now, whatever the limit, and wait for its result: its turn has come."""
        self._loop.refuse_own_thread()
        self._stopping.end_without_parent()
        self._scheduler.start_now(begun.future)
        while_waiting()

        def look_around() -> None:
            self._stopping.end_without_parent()
            while_waiting()
            self._progress.show(self._scheduler.in_flight)

        result = wait_for(begun.future, look_around)
        self.yield_to_loop()
        self._progress.clear()
        return result

    def yield_to_loop(self) -> None:
        """Let the cases in flight go on before this thread does."""
        if self._scheduler.in_flight:
            self._loop.yield_to_loop()

    def end(self, begun: Begun, reason: str, *, is_run_ending: bool = False) -> EvalResult | None:
        """Cancel a case whose item was ended, and return the result that says so; None: it does not come to its end.

        The run may end as well: then all cases are cancelled together, since each may take a moment.
        """
        self._loop.refuse_own_thread()
        self._stopping.is_ending |= is_run_ending
        begun.ending.ask(self._loop, reason)
        if is_run_ending:
            self._loop.cancel_all()
        self._progress.clear()
        return _result_soon(begun)

    def drop(self, begun: Begun) -> None:
        """Cancel a case that was begun ahead and whose item is not run; it gets no result."""
        if not self._scheduler.drop(begun.future):
            begun.ending.ask(self._loop, None)

    def record(self, prepared: PreparedCase) -> EvalResult | None:
        """Write the result of a case that cannot be run and return it; None: the run has ended."""
        begun = self._submit(prepared, None, is_repeated=True)
        self._scheduler.start_now(begun.future)
        return _result_soon(begun)

    def start_waiting(self) -> None:
        """Start what waits: an item's turn is over, and what its case did may not count as a failure."""
        self._scheduler.start_waiting()

    def _submit(self, prepared: PreparedCase, member: "BatchMember | None", *, is_repeated: bool) -> Begun:
        self._recorder.probe()
        prepared = self._signer.sign(prepared)
        if self._recorder.error is not None and member is None:  # the others of a batch wait for each member
            prepared = _unrecordable(prepared, self._recorder.error)
        runs, job, log, ending = self._runs, prepared.job, CaseLog(), Ending()
        if isinstance(job, EvalResult):
            broken = job
            future = self._scheduler.submit(
                lambda: runs.give_up(broken, prepared, log), group=_NO_CALLS, limit=MAX_WORKERS
            )
            return Begun.of(future, 1, prepared, log)
        carried = None if is_repeated else self._finished.take(job)
        if carried is not None:
            known = carried
            future = self._scheduler.submit(
                lambda: runs.carry_over(known, prepared, log, member), group=_NO_CALLS, limit=MAX_WORKERS
            )
            return Begun.of(future, 1, prepared, log)
        limit = self.paces.limit(prepared)
        group, room = (self._group(prepared), limit) if member is None else (_BATCHES, sys.maxsize)
        future = self._scheduler.submit(lambda: runs.run(job, prepared, log, ending, member), group=group, limit=room)
        return Begun.of(future, limit, prepared, log, ending)

    @staticmethod
    def _group(prepared: PreparedCase) -> str:
        job = prepared.job
        return (
            _NO_CALLS if isinstance(job, EvalResult) else _ALL_TARGETS if job.options.workers else job.identity.target
        )


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
    broken = error_result(job.identity, "setup", "config", lost_text(reason), dry_run=job.options.dry_run)
    return prepared.replace(job=broken.replace(duration_ms=0.0))
