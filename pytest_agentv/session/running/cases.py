"""Starts, awaits, cancels and remembers cases. No other module does."""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import CancelledError
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pytest_agentv.engine.scheduler import Scheduler
from pytest_agentv.errors import LoopStartError
from pytest_agentv.model.options import MAX_WORKERS
from pytest_agentv.model.results import EvalResult
from pytest_agentv.runtime.loop import STOP_SECONDS, LoopThread, wait_for
from pytest_agentv.session.recording.records import Recorder
from pytest_agentv.session.recording.resume import FinishedCases
from pytest_agentv.session.running.case_runs import Begun, CaseRuns, Ending, Paces, Stopping, lost_text
from pytest_agentv.session.running.preparing import CaseSigner, PreparedCase
from pytest_agentv.session.showing.progress import Progress

if TYPE_CHECKING:
    from pytest_agentv.engine.scheduler import BatchMember  # only for batches and repeated cases
    from pytest_agentv.session.running.repeats import Repeats


_ALL_TARGETS: Final = ""
"""The group of all cases when `--agentv-workers` counts them together."""
_BATCHES: Final = "batches"
_NO_CALLS: Final = "no calls"
"""The group of cases without calls: broken ones and carried-over ones."""


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
        open_repeats: "Callable[[Scheduler[EvalResult]], Repeats]",
    ) -> None:
        self.paces = paces
        self._loop = loop
        self._runs = runs
        self._signer = signer
        self._finished = finished
        self._recorder = recorder
        self._stopping = stopping
        self._progress = progress
        self._open_repeats = open_repeats
        self._scheduler: Scheduler[EvalResult] = Scheduler(loop, may_start=lambda: stopping.runs_on)
        self._beginning = threading.Lock()  # one test may begin cases in several threads
        self.ahead: dict[Hashable, Begun] = {}
        """Cases that were begun and not awaited yet. Others only look."""
        self._known: Counter[Hashable] = Counter()

    def __contains__(self, key: object) -> bool:
        """Whether a case was begun in this run at least once."""
        return key in self._known

    @property
    def unfinished(self) -> int:
        """How many cases were begun and are not done."""
        return self._scheduler.unfinished

    def begin(self, key: Hashable, prepared: PreparedCase, members: "Sequence[BatchMember]" = ()) -> Begun:
        """Hand a case to the engine, which starts it when a place is free. A case that was begun before is asked again.

        `members` are its places in batches, one for each answer.
        """
        with self._beginning:
            begun = self.ahead[key] = self._submit(prepared, members, reruns=self._known[key])
            self._known[key] += 1  # only now: a time-out may end `_submit`, and the case has not begun then
        if members:
            self._start_now(begun)  # the other cases of its batch wait for each member
        return begun

    def earlier(self, node_id: str) -> Sequence[EvalResult]:
        """Return the results that an item has in the runs that this one goes on with, and single answers."""
        return self._finished.earlier(node_id)

    def sign(self, prepared: PreparedCase) -> PreparedCase:
        """Return a case with its hashes."""
        return self._signer.sign(prepared)

    def begin_again(
        self, prepared: PreparedCase, result: EvalResult, answers: int, members: "Sequence[BatchMember]" = ()
    ) -> Begun:
        """Ask a signed case that has a result for fresh answers, and add them to its result.

        `members` are its places in batches, one for each answer.
        """
        runs, log, ending, limit = self._runs, prepared.log, Ending(), self.paces.limit(prepared)
        assert not isinstance(prepared.job, EvalResult), "a case that cannot be loaded has no answers"
        again = self._repeats.open_again(
            prepared.job,
            lambda once, member: runs.answer(once, prepared, log, member),
            answers,
            members,
            group=_BATCHES if members else self._group(prepared),
            limit=sys.maxsize if members else limit,
        )
        running = self._loop.submit(runs.confirm(lambda: again.confirmed(result), log, ending, members))
        begun = Begun.of(running, limit, prepared, log, ending, hurry=again.hurry)
        if members:
            self._start_now(begun)  # the other cases of its batch wait for each member
        return begun

    def take(self, key: Hashable) -> Begun | None:
        """Return a case that was begun and not yet taken."""
        return self.ahead.pop(key, None)

    def wait(self, begun: Begun, while_waiting: Callable[[], None] = lambda: None) -> EvalResult:
        """Start a case now, ignoring the limit, because its turn has come. Wait for its result."""
        self._loop.refuse_own_thread()
        self._stopping.end_without_parent()
        self._start_now(begun)
        while_waiting()
        if not begun.future.done():
            self._progress.show_again(self._scheduler.in_flight)

        def look_around() -> None:
            self._stopping.end_without_parent()
            while_waiting()
            self._progress.show(self._scheduler.in_flight)

        try:
            result = wait_for(begun.future, look_around)
        finally:
            self._progress.clear()
            begun.log.print_again()
        return result

    def end(self, begun: Begun, reason: str, *, is_run_ending: bool = False) -> EvalResult | None:
        """Cancel a case whose item was ended, and return its result; None: it did not end in time.

        If the whole run ends, all cases are cancelled together, because each may take a moment.
        """
        self._loop.refuse_own_thread()
        self._stopping.is_ending |= is_run_ending
        begun.ending.ask(self._loop, reason)
        if is_run_ending:
            self._loop.cancel_all()
        self._progress.clear()
        return _result_soon(begun)

    def drop(self, begun: Begun, *, is_run_ending: bool = False) -> None:
        """Cancel a case that was begun ahead and whose item will not run. It gets no result.

        If the whole run ends, no other case takes its place.
        """
        self._stopping.is_ending |= is_run_ending
        if not self._scheduler.drop(begun.future):
            begun.ending.ask(self._loop, None)

    def record(self, prepared: PreparedCase) -> EvalResult | None:
        """Write the result of a case that cannot be run and return it; None: the run has ended."""
        begun = self._submit(prepared, (), reruns=1)
        self._scheduler.start_now(begun.future)
        return _result_soon(begun)

    def start_waiting(self) -> None:
        """Start waiting cases at the end of an item's turn, when its failure may count no more."""
        self._scheduler.start_waiting()

    def _start_now(self, begun: Begun) -> None:
        if begun.hurry is None:
            self._scheduler.start_now(begun.future)
        else:
            begun.hurry()

    def _submit(self, prepared: PreparedCase, members: "Sequence[BatchMember]", *, reruns: int) -> Begun:
        self._recorder.probe()
        try:
            self._loop.running_loop()
        except LoopStartError as error:
            return self._runs.give_up_here(prepared, str(error))
        prepared = self._signer.sign(prepared)
        if self._recorder.error is not None and not members:  # the other cases of a batch wait for each member
            prepared = prepared.replace(job=prepared.given_up(lost_text(self._recorder.error)))
        runs, job, log, ending = self._runs, prepared.job, prepared.log, Ending()
        if isinstance(job, EvalResult):
            broken = job
            future = self._scheduler.submit(
                lambda _: runs.give_up(broken, prepared, log), group=_NO_CALLS, limit=MAX_WORKERS
            )
            return Begun.of(future, 1, prepared, log)
        job = job.replace(reruns=reruns) if reruns else job
        carried = None if reruns else self._finished.take(job, prepared.repeat)
        if carried is not None:
            known = carried
            future = self._scheduler.submit(
                lambda _: runs.carry_over(known, prepared, log, members), group=_NO_CALLS, limit=MAX_WORKERS
            )
            return Begun.of(future, 1, prepared, log)
        limit = self.paces.limit(prepared)
        group, group_limit = (_BATCHES, sys.maxsize) if members else (self._group(prepared), limit)
        if prepared.repeat > 1:
            repeated = self._repeats.open(
                job,
                lambda once, member: runs.answer(once, prepared, log, member),
                members,
                reruns=reruns,
                group=group,
                limit=group_limit,
            )
            running = self._loop.submit(runs.run(job, prepared, log, ending, members=members, answers=repeated.result))
            return Begun.of(running, limit, prepared, log, ending, hurry=repeated.hurry)
        future = self._scheduler.submit(
            lambda leave: runs.run(job, prepared, log, ending, members=members, leave=leave),
            group=group,
            limit=group_limit,
        )
        return Begun.of(future, limit, prepared, log, ending)

    @cached_property
    def _repeats(self) -> "Repeats":
        """The parts that only repeated cases need."""
        return self._open_repeats(self._scheduler)

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
    finally:
        begun.log.print_again()


# From items to results.
#
# Three threads take part in a process that runs evals:
#
# - pytest's thread owns items, `Turns`, `Lookahead` and the terminal. It begins cases, waits for them and ends them
#   through `Cases`. Threads that a test starts may call `Cases` as well, through the fixture `agentv`.
# - The thread `agentv` runs the event loop of `LoopThread`. It owns targets, providers and the coroutines of
# `CaseRuns`,
#   and must never block: code of users that may block runs in threads of its own.
# - The thread `agentv-results` belongs to `Recorder` and alone writes to the results file.
#
# Other threads reach the loop through `LoopThread.submit`, `run` and `call` only. The loop's own thread must not wait
# for cases: `LoopThread.refuse_own_thread` raises there. `Scheduler` may be used from any thread; it has a lock.
#
# A cancellation goes from the item to the process:
#
# 1. Something ends the item while it waits: a time-out, `pytest.exit`, Ctrl-C. `Turns.take` sees the exception.
# 2. `Cases.end` asks the case's `Ending`, which calls `task.cancel()` on the loop. When the run ends, all tasks are
#    cancelled at the same time.
# 3. `CancelledError` rises through `run_case` to the provider, and there to `run_process`, which ends the process
# group.
# 4. `CaseRuns.run` records the case as an error of the kind `cancelled`. Its future is done, and pytest's thread goes
# on.
#
# A case that was begun ahead and whose item is skipped takes the same way through `Cases.drop`, but gets no result.
