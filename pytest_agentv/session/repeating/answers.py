"""Asks for the answers of one case, through the scheduler of all cases."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeAlias

from pytest_agentv.engine.repeating.combining import is_set_up_error
from pytest_agentv.engine.repeating.plan import RepeatPlan
from pytest_agentv.engine.scheduler import Leave, Queuer, Scheduler
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult

Ask: TypeAlias = Callable[[int], Coroutine[Any, Any, EvalResult]]
"""Asks for the answer of a number, 0-based, journals it and returns its result. Raises only for a cancellation."""


@record
class Lane:
    """The queue of the answers of a case."""

    scheduler: Scheduler[EvalResult]
    group: str
    limit: int
    """How many answers and cases of the group may be in flight."""
    is_batched: bool = False
    """Whether each answer goes into a call with those of other cases."""


@record
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

    def __init__(
        self, lane: Lane, plan: RepeatPlan, ask: Ask, numbers: Iterable[int], known: Mapping[int, EvalResult]
    ) -> None:
        """Prepare the answers of a case.

        Args:
            lane: Where they queue.
            plan: How many are wanted.
            ask: Asks for one.
            numbers: The numbers of the answers, in order.
            known: Answers that need not be asked, by their numbers.
        """
        self._lane = lane
        self._plan = plan
        self._ask = ask
        self._numbers = tuple(numbers)
        self._results = dict(known)
        self._queuer = Queuer()
        self._queued: set[Future[EvalResult]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._done: asyncio.Queue[int] = asyncio.Queue()
        self._is_over = False

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
