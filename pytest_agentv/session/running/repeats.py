"""Runs cases with several answers, from a job to the one result that its answers make."""

import asyncio
from collections.abc import Callable, Container, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.repeats import RepeatPlan, combine_answers, confirmed_by, is_set_up_error
from pytest_agentv.engine.scheduler import BatchMember, Leave, Queuer, Scheduler
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import Record
from pytest_agentv.model.results import EvalResult

if TYPE_CHECKING:
    from pytest_agentv.store.answers import AnswerStore

# Asks for the answers of one case, through the scheduler of all cases.

Ask: TypeAlias = Callable[[int], Coroutine[Any, Any, EvalResult]]
"""Asks for the answer of a number, 0-based, and returns its result. Raises only for a cancellation."""


@dataclass(frozen=True, slots=True)
class Lane:
    """The queue of the answers of a case."""

    scheduler: Scheduler[EvalResult]
    group: str
    limit: int
    """How many answers and cases of the group may be in flight."""
    is_batched: bool = False
    """Whether each answer goes into a call with those of other cases."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The answers of a case."""

    results: tuple[EvalResult, ...]
    """In the order of the answers."""
    together: bool
    """Whether all were asked at once, without waiting for the verdict on others."""


class Answers:
    """The answers of one case. Each is a job of the scheduler, and counts as one in flight.

    First, the answers that the verdict needs in any case are asked at once; then those that it still needs, until it is
    certain. If there are free places for all answers, all are asked at once, because nobody else needs these places.
    """

    def __init__(self, lane: Lane, plan: RepeatPlan, ask: Ask, numbers: Iterable[int]) -> None:
        """Prepare the answers of a case.

        Args:
            lane: Where they queue.
            plan: How many are wanted.
            ask: Asks for one.
            numbers: The numbers of the answers, in order.
        """
        self._lane = lane
        self._plan = plan
        self._ask = ask
        self._numbers = tuple(numbers)
        self._results: dict[int, EvalResult] = {}
        self._queuer = Queuer()
        self._queued: set[Future[EvalResult]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._done: asyncio.Queue[int] = asyncio.Queue()
        self._is_over = False

    def prefer(self, numbers: Container[int]) -> None:
        """Ask for the answers with these numbers first: an early stop must not ask for others."""
        self._numbers = tuple(sorted(self._numbers, key=lambda number: number not in numbers))

    def hurry(self) -> None:
        """Start the answers before all others, even in a run that starts nothing new. Any thread may call it."""
        self._lane.scheduler.hurry(self._queuer)

    async def ask(self) -> Asked:
        """Ask until no further answer is needed. When cancelled, wait for the answers in flight to end."""
        together = False
        try:
            while wanted := self._wanted():
                missing = [number for number in self._numbers if number not in self._results]
                if not self._results and self._has_room(len(missing)):
                    together, wanted = True, len(missing)
                await self._ask_for(missing[:wanted])
        finally:
            await self._end()
        return Asked(tuple(self._sorted()), together)

    def _wanted(self) -> int:
        """Return how many answers to ask now; 0 after an answer whose set-up failed."""
        results = self._sorted()
        return 0 if any(map(is_set_up_error, results)) else self._plan.wanted(results)

    def _has_room(self, count: int) -> bool:
        lane = self._lane
        return not lane.is_batched and lane.scheduler.free_places(lane.group, lane.limit) >= count

    def _sorted(self) -> list[EvalResult]:
        return [self._results[number] for number in sorted(self._results)]

    async def _ask_for(self, numbers: Iterable[int]) -> None:
        lane, expected = self._lane, set(numbers)
        for number in sorted(expected):
            start = partial(self._run, number)
            self._queued.add(lane.scheduler.submit(start, group=lane.group, limit=lane.limit, queuer=self._queuer))
        while expected:
            expected.discard(await self._done.get())

    async def _run(self, number: int, _leave: Leave) -> EvalResult:
        if self._is_over:
            raise asyncio.CancelledError
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            result = self._results[number] = await self._ask(number)
            self._done.put_nowait(number)
            return result
        finally:
            self._tasks.discard(task)

    async def _end(self) -> None:
        """Remove waiting answers, cancel those in flight, and wait for their end."""
        self._is_over = True
        for future in self._queued:
            self._lane.scheduler.drop(future)
        tasks = list(self._tasks)
        for task in tasks:
            if not task.cancelling():  # a second cancellation would interrupt the clean-up after the first
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


AskOnce: TypeAlias = Callable[[CaseJob, BatchMember | None], Coroutine[Any, Any, EvalResult]]
"""Asks for one answer of a job, and returns its result. Raises only for a cancellation."""


@dataclass(frozen=True, slots=True)
class Request(Record):
    """A request for answers of a case."""

    job: CaseJob
    plan: RepeatPlan
    first: int = 0
    """The number of the first answer; lower numbers were asked already."""
    members: Sequence[BatchMember] = ()
    """The places of the answers in batches, from the first on."""
    reruns: int = 0
    """How often the case was asked before in this run."""

    @property
    def numbers(self) -> range:
        """The numbers of the answers."""
        return range(self.first, self.first + self.plan.answers)

    def member(self, number: int) -> BatchMember | None:
        """Return the place of an answer in its batch."""
        place = number - self.first
        return self.members[place] if place < len(self.members) else None


class RepeatedCase:
    """One case and its answers."""

    def __init__(self, request: Request, lane: Lane, ask: AskOnce, stored: Callable[[], frozenset[int]]) -> None:
        """`stored` returns the numbers of the answers that earlier runs have. Called on the event loop."""
        self._request = request
        self._ask_once = ask
        self._stored = stored
        self._answers = Answers(lane, request.plan, self._ask, request.numbers)

    def hurry(self) -> None:
        """Start its answers before all others. Any thread may call it."""
        self._answers.hurry()

    async def results(self) -> tuple[tuple[EvalResult, ...], bool]:
        """Return the results of the answers, and whether all were asked at once."""
        self._answers.prefer(self._stored())
        asked = await self._answers.ask()
        return asked.results, asked.together

    async def result(self) -> EvalResult:
        """Return the result of the case."""
        results, together = await self.results()
        request = self._request
        with_answers = request.job.options.include_answers
        return combine_answers(results, request.plan, together=together, with_answers=with_answers)

    async def confirmed(self, result: EvalResult) -> EvalResult:
        """Return a result of the case with the figures of these answers."""
        fresh, _ = await self.results()
        return confirmed_by(result, fresh, self._request.plan)

    async def _ask(self, number: int) -> EvalResult:
        request = self._request
        return await self._ask_once(request.job.replace(answer=number), request.member(number))


class Repeats:
    """Makes the repeated cases of a run."""

    def __init__(
        self, scheduler: Scheduler[EvalResult], store: "AnswerStore | None", warn: Callable[[Problem], None]
    ) -> None:
        """`scheduler` is where all answers queue, `store` has those of earlier runs, `warn` shows a warning."""
        self._scheduler = scheduler
        self._store = store
        self._warn = warn
        self._told_of_reruns = False

    def open(
        self, job: CaseJob, ask: AskOnce, members: Sequence[BatchMember], *, reruns: int, group: str, limit: int
    ) -> RepeatedCase:
        """Return a case that is asked as often as its file or the run says.

        Args:
            job: The case.
            ask: Asks for one of its answers.
            members: The places of the answers in batches.
            reruns: How often the case was asked before in this run.
            group: Its group of the scheduler.
            limit: How many of that group may be in flight.
        """
        if reruns:
            self._warn_of_reruns(job)
        request = Request(job, RepeatPlan.of(job, job.repeat), members=members, reruns=reruns)
        return self._open(request, ask, group, limit)

    def open_again(
        self, job: CaseJob, ask: AskOnce, answers: int, members: Sequence[BatchMember], *, group: str, limit: int
    ) -> RepeatedCase:
        """Return a case that is asked for further answers. All of them are asked, even if the verdict is certain."""
        plan = RepeatPlan.of(job, answers).replace(stops_early=False)
        return self._open(Request(job, plan, first=job.repeat, members=members), ask, group, limit)

    def _warn_of_reruns(self, job: CaseJob) -> None:
        if not self._told_of_reruns:
            self._told_of_reruns = True
            message = f"all {job.repeat} answers are asked anew, as often as a plugin reruns the case until it passes"
            hint = "`min_pass_rate` says how many may fail"
            self._warn(Problem(Path(job.case.path), job.case.line, job.case.eval_id, message, hint, level="warning"))

    def _open(self, request: Request, ask: AskOnce, group: str, limit: int) -> RepeatedCase:
        lane = Lane(self._scheduler, group, limit, is_batched=bool(request.members))
        return RepeatedCase(request, lane, ask, lambda: self._stored(request))

    def _stored(self, request: Request) -> frozenset[int]:
        identity = request.job.identity
        if self._store is None or request.reruns:
            return frozenset()
        return self._store.numbers(identity.node_id, identity.eval_id)
