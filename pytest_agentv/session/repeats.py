"""Runs a case with several answers, through the scheduler of all cases."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.repeats import RepeatPlan, combine_answers, confirmed_by, is_set_up_error
from pytest_agentv.engine.scheduler import Leave, Queuer, Scheduler
from pytest_agentv.model.results import EvalResult

Ask: TypeAlias = Callable[[int], Coroutine[Any, Any, EvalResult]]
"""Asks for the answer of a number, 0-based, and returns its result. Raises only for a cancellation."""


@dataclass(slots=True, eq=False)
class RepeatedCase:
    """One case and its answers. Each is a job of the scheduler, and counts as one in flight.

    First, the answers that the verdict needs in any case are asked at once; then those that it still needs, until it is
    certain. If there are free places for all answers, all are asked at once, because nobody else needs these places.
    """

    scheduler: Scheduler[EvalResult]
    job: CaseJob
    ask: Ask
    group: str
    limit: int
    more: int
    """How many are asked, even if the verdict is certain, after all answers of the case; 0: those of the case are."""
    is_batched: bool
    """Whether each goes into a call with those of other cases."""
    stored: Callable[[], frozenset[int]]
    """Returns the numbers of the answers that earlier runs have. Called on the event loop."""
    _plan: RepeatPlan = field(init=False)
    _results: dict[int, EvalResult] = field(default_factory=dict)
    _queuer: Queuer = field(default_factory=Queuer)
    _queued: set[Future[EvalResult]] = field(default_factory=set)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _done: asyncio.Queue[int] = field(default_factory=asyncio.Queue)
    _is_over: bool = False

    def __post_init__(self) -> None:
        plan = RepeatPlan.of(self.job, self.more or self.job.repeat)
        self._plan = plan.replace(stops_early=False) if self.more else plan

    def hurry(self) -> None:
        """Start the answers before all others, even in a run that starts nothing new. Any thread may call it."""
        self.scheduler.hurry(self._queuer)

    async def result(self, *, with_answers: bool = False) -> EvalResult:
        """Return the result of the case; `with_answers`: with those of all answers."""
        results, together = await self.answers()
        return combine_answers(results, self._plan, together=together, with_answers=with_answers)

    async def confirmed(self, result: EvalResult) -> EvalResult:
        """Return a result of the case with the figures of these answers."""
        results, _ = await self.answers()
        return confirmed_by(result, results, self._plan)

    async def answers(self) -> tuple[tuple[EvalResult, ...], bool]:
        """Return the results of the answers, in order, and whether all were asked at once, without waiting for others.

        Asks until no further answer is needed. When cancelled, waits for the answers in flight to end.
        """
        stored = self.stored()  # an early stop must not ask for others
        first = self.job.repeat if self.more else 0
        numbers = sorted(range(first, first + self._plan.answers), key=lambda number: number not in stored)
        together = False
        try:
            while not any(map(is_set_up_error, self._results.values())):
                wanted = self._plan.wanted(self._sorted())
                if not wanted:
                    break
                missing = [number for number in numbers if number not in self._results]
                if not self._results and self._has_room(len(missing)):
                    together, wanted = True, len(missing)
                expected = set(missing[:wanted])
                for number in sorted(expected):
                    start, queuer = partial(self._run, number), self._queuer
                    queued = self.scheduler.submit(start, group=self.group, limit=self.limit, queuer=queuer)
                    self._queued.add(queued)
                while expected:
                    expected.discard(await self._done.get())
        finally:
            await self._end()
        return tuple(self._sorted()), together

    def _has_room(self, count: int) -> bool:
        return not self.is_batched and self.scheduler.free_places(self.group, self.limit) >= count

    def _sorted(self) -> list[EvalResult]:
        return [self._results[number] for number in sorted(self._results)]

    async def _run(self, number: int, _leave: Leave) -> EvalResult:
        if self._is_over:
            raise asyncio.CancelledError
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            result = self._results[number] = await self.ask(number)
            self._done.put_nowait(number)
            return result
        finally:
            self._tasks.discard(task)

    async def _end(self) -> None:
        """Remove waiting answers, cancel those in flight, and wait for their end."""
        self._is_over = True
        for future in self._queued:
            self.scheduler.drop(future)
        tasks = list(self._tasks)
        for task in tasks:
            if not task.cancelling():  # a second cancellation would interrupt the clean-up after the first
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
