"""Runs a case on the event loop, carries it over or gives it up, and writes its result."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from pytest_agentv.engine.case import run_case, tell
from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.pool import TargetPool
from pytest_agentv.engine.results import error_result
from pytest_agentv.engine.scheduler import BatchMember
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.results import EvalResult, Spent
from pytest_agentv.reports.dumps import CaseLog, current_log
from pytest_agentv.reports.figures import shown
from pytest_agentv.runtime.loop import LoopThread
from pytest_agentv.session.identity import RunIdentity
from pytest_agentv.session.outcomes import AskedTexts
from pytest_agentv.session.plan import PreparedCase
from pytest_agentv.session.progress import Progress
from pytest_agentv.session.recorder import Recorder
from pytest_agentv.session.resume import Carried, FinishedCases
from pytest_agentv.session.workers import stop_mark
from pytest_agentv.store.answers import AnswerStore
from pytest_agentv.store.writers import stored_name

if TYPE_CHECKING:
    from pytest_agentv.session.away import Away


# Cases that were handed to the engine.


class Ending:
    """Ends a running case. pytest's thread asks for it, and the event loop cancels the case's task.

    The running task may be cancelled within its `with` block. It is cancelled at once if that was requested before.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self.reason: str | None = None
        """The reason in the case's result; None: the case gets no result."""
        self.is_too_late = False
        """Whether the case was judged before it was cancelled."""
        self._task: asyncio.Task[object] | None = None

    def note_judged(self) -> None:
        """Note that the case is judged. If its target swallowed a cancellation, the cancellation was not too late."""
        self.is_too_late = self._task is not None and self._task.cancelling() == 0

    def ask(self, loop: LoopThread, reason: str | None) -> None:
        """Cancel the case. Its future is done when its processes have ended."""
        self.reason, self.is_asked = reason, True
        loop.call(self._cancel)

    def __enter__(self) -> None:
        if self.is_asked:
            raise asyncio.CancelledError
        self._task = asyncio.current_task()

    def __exit__(self, *_: object) -> None:
        self._task = None

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """A case that was handed to the engine."""

    future: "Future[EvalResult]"
    """Done when the result is written and hooks have seen it."""
    limit: int
    """How many cases of its group may be in flight."""
    problems: tuple[Problem, ...]
    """Warnings about the case's file."""
    asked: AskedTexts
    """The question and the expected outcome of the case."""
    log: CaseLog
    ending: Ending
    hurry: Callable[[], None] | None = None
    """Starts the answers of a repeated case before all others; None: the case is one job of the scheduler."""

    @property
    def result(self) -> EvalResult | None:
        """The result of the case; None: it has none yet, or was cancelled."""
        future = self.future
        return future.result() if future.done() and not future.cancelled() and future.exception() is None else None

    @staticmethod
    def of(
        future: "Future[EvalResult]",
        limit: int,
        prepared: PreparedCase,
        ending: Ending | None = None,
        *,
        hurry: Callable[[], None] | None = None,
    ) -> "Begun":
        """Keep only what the item shows, so that the case, with the texts of its files, is freed when it is done."""
        asked = AskedTexts.of(prepared.case)
        return Begun(future, limit, prepared.problems, asked, prepared.log, ending or Ending(), hurry)


# Decides whether a run goes on: it may end at failures, or for other reasons.


class FailureLimit:
    """Whether the run is about to stop at `-x`, `--maxfail` or `--stepwise`.

    pytest counts the failures that it has reported. A case that failed ahead of its turn counts as well, but only until
    its turn is over: pytest may see it in another way (xfail, reruns, hooks that change reports).
    """

    def __init__(self, config: pytest.Config) -> None:
        by_steps = 2 if config.getoption("stepwise_skip", default=False) else 1
        is_stepwise = config.getoption("stepwise", default=False)
        self.maximum = by_steps if is_stepwise else int(config.getoption("maxfail", default=0) or 0)
        """0: any number may fail."""
        self._session: pytest.Session | None = None
        self._current = ""
        self._ahead: set[str] = set()
        """Node ids of cases that failed before their turn. Only the event loop adds, only pytest's thread removes."""

    def begin(self, item: pytest.Item) -> None:
        self._session, self._current = item.session, stored_name(item.nodeid)

    def end(self, item: pytest.Item) -> None:
        """Note that an item's turn is over: pytest has counted its failure."""
        self._current = ""
        self._ahead.discard(stored_name(item.nodeid))

    def note(self, node_id: str | None) -> None:
        if self.maximum and node_id is not None and node_id != self._current:
            self._ahead.add(node_id)

    @property
    def is_reached(self) -> bool:
        reported = self._session.testsfailed if self._session is not None else 0
        return 0 < self.maximum <= reported + len(self._ahead)


class Stopping:
    """Tells whether a run stops: unhealthy targets, lost results, failures, Ctrl-C, or a controller that is gone.

    Any thread may ask.
    """

    def __init__(self, config: pytest.Config, pool: TargetPool, recorder: Recorder, run_id: str) -> None:
        self.is_ending = False
        """Set by pytest's thread when the run ends. Cases that are cancelled later get no result."""
        self.failures = FailureLimit(config)
        self._pool = pool
        self._recorder = recorder
        self._controller = os.getppid() if hasattr(config, "workerinput") else None
        self._stop_mark = stop_mark(run_id, os.getppid())

    @property
    def runs_on(self) -> bool:
        """Whether cases may start before their turn."""
        return not (
            self.is_ending
            or self._pool.stop_reason is not None
            or self._recorder.error is not None
            or self.failures.is_reached
        )

    def stop_if_needed(self, session: pytest.Session) -> None:
        """End the run after the current item if a target is unhealthy or results are lost."""
        reason = self._pool.stop_reason
        if reason is not None:
            headline = shown(reason, self._pool.masker).partition("\n")[0]
            session.shouldstop = f"agentv: {headline}"
        elif self._recorder.error is not None:
            session.shouldfail = f"agentv: {lost_text(self._recorder.error)}"

    def end_without_parent(self) -> None:
        """End a worker whose controller is gone, or was interrupted. Nobody would see the results that it pays for."""
        if self._controller is not None and (os.getppid() != self._controller or self._stop_mark.exists()):
            self.is_ending = True
            pytest.exit("the controller of this worker is gone")


def lost_text(reason: str) -> str:
    return f"results cannot be recorded: {reason}"


@dataclass(slots=True, eq=False)
class CaseCosts:
    """What is paid for each case of each target: in this process, and before. Used on the event loop."""

    store: AnswerStore | None
    finished: FinishedCases
    has_others: bool
    """Whether other processes or runs may have paid for cases of this one."""
    _own: dict[tuple[str | None, str, str], Spent | None] = field(default_factory=dict)

    def add(self, answer: EvalResult) -> None:
        case = (answer.node_id, answer.eval_id, answer.target)
        before = self._own.get(case)
        self._own[case] = answer.spent if before is None else Spent.added((before, answer.spent))

    def put_into(self, result: EvalResult) -> EvalResult:
        """Return a result with all that was paid for its case."""
        total = self.total(result)
        return result if total is result.spent else result.replace(spent=total)

    def total(self, result: EvalResult) -> Spent | None:
        """Return what was paid for the case of a result, whatever became of the answers."""
        own = self._own.get((result.node_id, result.eval_id, result.target))
        if not self.has_others or result.node_id is None:
            return own
        last = self.finished.last(result.node_id, result.eval_id)
        stored = None if self.store is None else self.store.spent(result.node_id, result.eval_id, result.target)
        told = None if last is None or last.target != result.target else last.spent
        # The run may have been killed before its line, or the store may be on another machine: the larger one is right.
        known = [each for each in (stored, told) if each is not None]
        return Spent.added((max(known, key=lambda each: each.answer.calls), own)) if known else own


@dataclass(slots=True, eq=False)
class CaseRuns:
    """The coroutines that the scheduler starts; each returns a result that was written."""

    pool: TargetPool
    recorder: Recorder
    progress: Progress
    stopping: Stopping
    identity: RunIdentity
    away: "Away | None"
    costs: CaseCosts

    async def run(
        self,
        job: CaseJob,
        prepared: PreparedCase,
        ending: Ending,
        *,
        members: Sequence[BatchMember] = (),
        answers: Callable[[], Awaitable[EvalResult]] | None = None,
        leave: Callable[[], None] | None = None,
    ) -> EvalResult:
        """Run a case. A case that breaks, or is cancelled because its item ended, is an error.

        `answers` returns the result of a repeated case. `leave` gives the case's place to the next one.
        """
        current_log.set(prepared.log)
        try:
            with ending:
                if answers is None:
                    result = await self._ask(job, prepared, members[0] if members else None)
                else:
                    result = await answers()
                ending.note_judged()
                return await self._record(self.costs.put_into(result), prepared, leave)
        except GeneratorExit:
            raise  # the coroutine is being closed, and must not await anything
        except BaseException as error:
            if ending.reason is None and (ending.is_asked or self.stopping.is_ending):
                raise
            broken = _broken(job, ending.reason, error)
        finally:
            for member in members:
                member.leave()  # else the other cases of its batch would wait for it
        return await self._record(self.costs.put_into(broken), prepared)

    async def answer(self, job: CaseJob, prepared: PreparedCase, member: BatchMember | None) -> EvalResult:
        """Ask for one answer of a repeated case. Raises only for a cancellation."""
        if self.recorder.error is not None:  # its result would be lost
            return error_result(job.identity, "setup", "config", lost_text(self.recorder.error))
        current_log.set(prepared.log)
        try:
            result = await self._ask(job, prepared, member)
        except GeneratorExit:
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if self.stopping.is_ending or (task is not None and task.cancelling()):
                raise
            result = _broken(job, None, error)
        self.progress.count_answer(result)
        return result

    async def confirm(
        self, answers: Callable[[], Awaitable[EvalResult]], prepared: PreparedCase, ending: Ending
    ) -> EvalResult:
        """Get fresh answers of a case that has a result, and write the new result."""
        current_log.set(prepared.log)
        with ending:
            return await self.recorder.record(self.costs.put_into(await answers()))

    async def carry_over(self, carried: Carried, prepared: PreparedCase, members: Sequence[BatchMember]) -> EvalResult:
        """Take over a result. Writes its line again only if it has changed."""
        current_log.set(prepared.log)
        for member in members:
            member.leave()
        resumed = self.identity.resumed
        if not carried.is_changed and (resumed is None or resumed.path == self.identity.results_path):
            self.progress.count(carried.result, prepared.repeat)
            return carried.result
        # An older line does not tell what later ones paid. A case that was renamed has no other.
        spent = self.costs.total(carried.result) or carried.result.spent
        return await self._record(carried.result.replace(run_id=self.identity.run_id, spent=spent), prepared)

    async def give_up(self, broken: EvalResult, prepared: PreparedCase) -> EvalResult:
        current_log.set(prepared.log)
        return await self._record(self.costs.put_into(broken), prepared)

    def give_up_here(self, prepared: PreparedCase, reason: str) -> Begun:
        """Record a case in the thread of its item, because there is no event loop, which hooks need."""
        # Without hashes, the error does not take the place of a finished result of an earlier run.
        result = prepared.given_up(reason).replace(case_hash=None, target_hash=None, grading_hash=None)
        self._count(result, prepared)
        ended: Future[EvalResult] = Future()
        ended.set_result(self.recorder.record_here(result))
        return Begun.of(ended, 1, prepared)

    async def _ask(self, job: CaseJob, prepared: PreparedCase, member: BatchMember | None) -> EvalResult:
        """Ask for one answer and judge it: in the run's executor if possible, else in this process."""
        result = None
        if self.away is not None:
            result = await self.away.ask(job, prepared, is_batched=member is not None)
        if result is None:
            result = await run_case(job, self.pool, member, hooks=prepared.hooks, own=prepared.own)
        self.costs.add(result)
        return result

    async def _record(
        self, result: EvalResult, prepared: PreparedCase, leave: Callable[[], None] | None = None
    ) -> EvalResult:
        """Write a result. The next case starts meanwhile, unless too many wait to be written: a kill would lose them.

        A cancellation skips only the hooks. The result of a judged case is always written once.
        """
        self._count(result, prepared)
        written = self.recorder.record(result)
        if leave is not None:
            leave()
        with suppress(asyncio.CancelledError):
            result = await written
            await tell(prepared.hooks, prepared.case, result)
        return result

    def _count(self, result: EvalResult, prepared: PreparedCase) -> None:
        self.pool.masker.look_again()
        self.progress.count(result, prepared.repeat)
        if result.status != "pass":
            self.stopping.failures.note(result.node_id)


def _broken(job: CaseJob, reason: str | None, error: BaseException) -> EvalResult:
    """Return the result of a case that was ended for a reason or raised an unexpected error."""
    identity = job.identity.replace(case_hash=None)  # so that a resumed run does not carry it over
    if reason is not None:
        return error_result(identity, "provider", "cancelled", reason)
    message = f"{type(error).__name__}: {error}".removesuffix(": ")
    return error_result(identity, "provider", "crash", message)
