"""Runs a case on the event loop, carries it over or gives it up, and writes its result."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_agentv.engine.asking_hooks import tell
from pytest_agentv.engine.case import run_case
from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.results import error_result
from pytest_agentv.engine.targets.pool import TargetPool
from pytest_agentv.errors import AgentvError
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.prints import CaseLog, current_log
from pytest_agentv.session.recording.identity import RunIdentity
from pytest_agentv.session.recording.journal import Carried
from pytest_agentv.session.recording.recorder import Recorder
from pytest_agentv.session.running.begun import Begun, Ending
from pytest_agentv.session.running.preparing import PreparedCase
from pytest_agentv.session.running.signing import CaseSigner
from pytest_agentv.session.running.stopping import FailureLimit, Stopping, lost_text
from pytest_agentv.session.showing.live.progress import Progress

if TYPE_CHECKING:  # only for batches and executors
    from pytest_agentv.engine.batching import BatchMember
    from pytest_agentv.session.away.away import Away


class CaseRuns:
    """The coroutines that the scheduler starts; each returns a result that was written."""

    def __init__(
        self,
        *,
        pool: TargetPool,
        signer: CaseSigner,
        recorder: Recorder,
        progress: Progress,
        failures: FailureLimit,
        stopping: Stopping,
        identity: RunIdentity,
        away: "Away | None",
    ) -> None:
        self._pool = pool
        self._signer = signer
        self._recorder = recorder
        self._progress = progress
        self._failures = failures
        self._stopping = stopping
        self._identity = identity
        self._away = away

    async def run(
        self,
        job: CaseJob,
        prepared: PreparedCase,
        log: CaseLog,
        ending: Ending,
        *,
        members: "Sequence[BatchMember]" = (),
        answers: Callable[[], Awaitable[EvalResult]] | None = None,
        leave: Callable[[], None] | None = None,
    ) -> EvalResult:
        """Run a case. A case that breaks, or is cancelled because its item ended, is an error.

        `answers` returns the result of a repeated case. `leave` gives the case's place to the next one.
        """
        current_log.set(log)
        try:
            with ending:
                if answers is None:
                    member = members[0] if members else None
                    result = await self._ask(job, prepared, log, member)
                else:
                    result = await self._combined(answers)
                ending.note_judged()
                return await self._record(result, prepared, leave)
        except GeneratorExit:
            raise  # the coroutine is being closed, and must not await anything
        except BaseException as error:
            if ending.reason is None and (ending.is_asked or self._stopping.is_ending):
                raise
            broken = _broken(job, ending.reason, error)
        finally:
            for member in members:
                member.leave()  # else the other cases of its batch would wait for it
        return await self._record(broken, prepared)

    async def answer(
        self, job: CaseJob, prepared: PreparedCase, log: CaseLog, member: "BatchMember | None"
    ) -> EvalResult:
        """Ask for one answer of a repeated case. Raises only for a cancellation."""
        if self._recorder.error is not None:  # its result would be lost
            return error_result(job.identity, "setup", "config", lost_text(self._recorder.error))
        current_log.set(log)
        try:
            result = await self._ask(job, prepared, log, member)
        except GeneratorExit:
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if self._stopping.is_ending or (task is not None and task.cancelling()):
                raise
            result = _broken(job, None, error)
        self._progress.count_answer(result)
        return result

    async def confirm(
        self,
        answers: Callable[[], Awaitable[EvalResult]],
        log: CaseLog,
        ending: Ending,
        members: "Sequence[BatchMember]",
    ) -> EvalResult:
        """Get fresh answers of a case that has a result, and write the new result."""
        current_log.set(log)
        try:
            with ending:
                result = await self._combined(answers)
                result = await self._recorder.record(result)
                self._let_go(result)
                return result
        finally:
            for member in members:
                member.leave()  # else the other cases of its batch would wait for it

    async def carry_over(
        self, carried: Carried, prepared: PreparedCase, log: CaseLog, members: "Sequence[BatchMember]"
    ) -> EvalResult:
        """Take over a result. Writes its line again only if it has changed."""
        current_log.set(log)
        for member in members:
            member.leave()
        resumed = self._identity.resumed
        if not carried.is_changed and (resumed is None or resumed.path == self._identity.results_path):
            self._progress.count(carried.result, prepared.repeat)
            return carried.result
        return await self._record(carried.result.replace(run_id=self._identity.run_id), prepared)

    async def give_up(self, broken: EvalResult, prepared: PreparedCase, log: CaseLog) -> EvalResult:
        """Record a case that cannot be run."""
        current_log.set(log)
        if prepared.folder is not None:
            with suppress(AgentvError, OSError):  # cases that can be run report these errors
                self._pool.learn_secrets(prepared.folder)
        return await self._record(broken, prepared)

    def give_up_here(self, prepared: PreparedCase, reason: str) -> Begun:
        """Record a case in the thread of its item, because there is no event loop, which hooks need."""
        with suppress(AgentvError, OSError):
            if prepared.folder is not None:
                self._pool.learn_secrets(prepared.folder)
        # Without hashes, the error does not take the place of a finished result of an earlier run.
        result = prepared.given_up(reason).replace(case_hash=None, target_hash=None, grading_hash=None)
        self._count(result, prepared)
        ended: Future[EvalResult] = Future()
        ended.set_result(self._recorder.record_here(result))
        return Begun.of(ended, 1, prepared, prepared.log)

    async def _ask(
        self, job: CaseJob, prepared: PreparedCase, log: CaseLog, member: "BatchMember | None"
    ) -> EvalResult:
        """Ask for one answer and judge it: in the run's executor if possible, else in this process."""
        since = self._signer.moment()
        result = await self._ask_there_or_here(job, prepared, log, member)
        checked = self._signer.checked(result, since)
        if checked.target_hash != result.target_hash:
            self._pool.waiting.drop(job.identity, job.answer)
        return checked

    async def _combined(self, answers: Callable[[], Awaitable[EvalResult]]) -> EvalResult:
        """Return the result of several answers, of which some may be of a program that changed."""
        since = self._signer.moment()
        return self._signer.checked(await answers(), since)

    async def _ask_there_or_here(
        self, job: CaseJob, prepared: PreparedCase, log: CaseLog, member: "BatchMember | None"
    ) -> EvalResult:
        hooks, own = prepared.hooks, prepared.own
        if self._away is not None:
            found = await self._away.ask(
                job, log, hooks=hooks, own=own, bound_by=prepared.bound_by, is_batched=member is not None
            )
            if found is not None:
                return found
        return await run_case(job, self._pool, member, hooks=hooks, own=own)

    def _let_go(self, result: EvalResult) -> None:
        """Let workers drop a written result, and delete its kept answers. Does nothing if results are lost."""
        if self._recorder.error is not None:
            return
        self._pool.waiting.settle(result)
        if self._away is not None:
            self._away.written(result.node_id)

    async def _record(
        self, result: EvalResult, prepared: PreparedCase, leave: Callable[[], None] | None = None
    ) -> EvalResult:
        """Write a result. The next case starts meanwhile, unless too many wait to be written: a kill would lose them.

        A cancellation skips only the hooks. The result of a judged case is always written once.
        """
        self._count(result, prepared)
        written = self._recorder.record(result)
        if leave is not None:
            leave()
        try:
            result = await written
            self._let_go(result)
            await tell(prepared.hooks, prepared.case, result)
        except asyncio.CancelledError:
            self._let_go(result)
        # The prompt is in the file now. It may be large, and the item lives until the end of the run.
        return result.replace(agent_provider_request=None, lm_provider_request=None)

    def _count(self, result: EvalResult, prepared: PreparedCase) -> None:
        self._pool.masker.look_again()
        self._progress.count(result, prepared.repeat)
        if result.status != "pass":
            self._failures.note(result.node_id)


def _broken(job: CaseJob, reason: str | None, error: BaseException) -> EvalResult:
    """Return the result of a case that was ended for a reason or raised an unexpected error.

    It has no hash of its case, so that a resumed run does not carry it over.
    """
    identity = job.identity.replace(case_hash=None)
    if reason is not None:
        return error_result(identity, "provider", "cancelled", reason, dry_run=job.options.dry_run)
    message = f"{type(error).__name__}: {error}".removesuffix(": ")
    return error_result(identity, "provider", "crash", message, dry_run=job.options.dry_run)
