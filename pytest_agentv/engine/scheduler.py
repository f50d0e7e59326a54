"""Keeps many cases in flight, up to a limit per group, and makes one call for all cases of a batch."""

import asyncio
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pytest_agentv.cases.prompts import PromptMode
from pytest_agentv.engine.answers import OuterAdapter
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.secrets import masked
from pytest_agentv.providers.base import Adapter, BatchProvider, ProviderRequest, ProviderResponse, one_for_each
from pytest_agentv.runtime.loop import AnyFuture, LoopThread, hand_on
from pytest_agentv.runtime.user_code import Outcome, attempt_async

# Many cases in flight, up to a limit per group: the next case starts as soon as one ends.

T = TypeVar("T")

Leave: TypeAlias = Callable[[], None]
"""Gives the place of a running job to the next one. Called on the event loop, by the job."""
_MOST_FINISHING: Final = 4
"""A group may have one job that left its place, but has not ended, for every so many places."""


@dataclass(slots=True, eq=False)
class Queuer:
    """A submitter of several jobs that are awaited together."""

    is_due: bool = False
    """Whether its jobs start before all others, even if `may_start` returns False."""


@dataclass(slots=True, eq=False)
class _Job(Generic[T]):
    """A coroutine to start, and the future of its result."""

    start: Callable[[Leave], Coroutine[Any, Any, T]]
    group: str
    limit: int
    future: "Future[T]"
    queuer: Queuer | None = None
    is_finishing: bool = False
    """Whether it left its place, and has not ended yet."""

    @property
    def is_due(self) -> bool:
        return self.queuer is not None and self.queuer.is_due


class Scheduler(Generic[T]):
    """An ordered queue of jobs, run on the event loop; used from any thread.

    Jobs of a group share a limit. Jobs start in the order of submission when their group has a free place. `start_now`
    starts a job at once. While `may_start` returns False, no other job starts; `start_waiting` calls it again.

    A job keeps its place until it has ended, unless it leaves the place earlier: writing a result, for example, needs
    none. At most a quarter of the places may be left at a time, so that unwritten results cannot pile up.
    """

    def __init__(self, loop: LoopThread, may_start: Callable[[], bool] = lambda: True) -> None:
        self._loop = loop
        self._may_start = may_start
        self._lock = threading.Lock()  # guards the queue and the counts
        self._queue: deque[_Job[T]] = deque()
        self._in_flight: Counter[str] = Counter()
        self._finishing: Counter[str] = Counter()

    @property
    def in_flight(self) -> int:
        return sum(self._in_flight.values())

    @property
    def unfinished(self) -> int:
        """Number of jobs that run or wait."""
        return self.in_flight + sum(self._finishing.values()) + len(self._queue)

    def submit(
        self, start: Callable[[Leave], Coroutine[Any, Any, T]], *, group: str, limit: int, queuer: Queuer | None = None
    ) -> "Future[T]":
        """Queue a job. Its future gets the result or the error of the coroutine."""
        job = _Job(start, group, limit, Future(), queuer)
        with self._lock:
            self._enqueue(job)
        self.start_waiting()
        return job.future

    def free_places(self, group: str, limit: int) -> int:
        """Return how many jobs of a group would start at once: none while others of it wait."""
        with self._lock:
            if any(job.group == group for job in self._queue):
                return 0
            return max(0, limit - self._in_flight[group])

    def hurry(self, queuer: Queuer) -> None:
        """Put the jobs of a queuer, and those that it will submit, before all others."""
        with self._lock:
            queuer.is_due = True
            jobs = [job for job in self._queue if job.queuer is queuer]
            for job in jobs:
                self._queue.remove(job)
            for job in jobs:
                self._enqueue(job)
        self.start_waiting()

    def start_now(self, future: "Future[T]") -> None:
        """Start a waiting job, ignoring the limit."""
        with self._lock:
            job = self._take(future)
            if job is None:
                return
            self._in_flight[job.group] += 1
        self._start(job)

    def drop(self, future: "Future[T]") -> bool:
        """Remove a waiting job from the queue and cancel its future. Return whether it was waiting."""
        with self._lock:
            if self._take(future) is None:
                return False
        future.cancel()
        return future.set_running_or_notify_cancel() is False

    def _take(self, future: "Future[T]") -> _Job[T] | None:
        for job in self._queue:
            if job.future is future:
                self._queue.remove(job)
                return job
        return None

    def start_waiting(self) -> None:
        """Start waiting jobs while there are free places."""
        while (job := self._next_job()) is not None:
            self._start(job)

    def _enqueue(self, job: _Job[T]) -> None:
        """Queue a job behind all others, or, if it is due, behind the other jobs that are due."""
        if job.is_due:
            self._queue.insert(sum(1 for _ in takewhile(lambda other: other.is_due, self._queue)), job)
        else:
            self._queue.append(job)

    def _next_job(self) -> _Job[T] | None:
        with self._lock:
            for job in self._queue:
                if self._in_flight[job.group] >= job.limit:
                    continue
                if not (job.is_due or self._may_start()):
                    break
                self._queue.remove(job)
                self._in_flight[job.group] += 1
                return job
        return None

    def _start(self, job: _Job[T]) -> None:
        self._loop.start(job.start(partial(self._leave, job)), lambda done: self._end(job, done))

    def _leave(self, job: _Job[T]) -> None:
        with self._lock:
            if job.is_finishing or self._finishing[job.group] >= job.limit // _MOST_FINISHING:
                return
            job.is_finishing = True
            self._finishing[job.group] += 1
            self._in_flight[job.group] -= 1
        self.start_waiting()

    def _end(self, job: _Job[T], done: AnyFuture[T]) -> None:
        with self._lock:
            (self._finishing if job.is_finishing else self._in_flight)[job.group] -= 1
        self.start_waiting()
        hand_on(done, job.future)


# One call for all cases of a target with `provider_batching`.

_LOGGER: Final = logging.getLogger(__name__)


class Batch:
    """Gathers the requests of a known number of cases and sends them together.

    Each case runs like any other until its call. When every case has reached its call or has ended before it, the
    batch makes one call. If the provider cannot batch, or the call fails, it sends each request separately. Used on
    the event loop.

    Source: evaluation-2026-01, "Provider-level batching flag".
    """

    def __init__(self, size: int, limit: int) -> None:
        self._missing = size
        self._limit = limit
        self._waiting: list[BatchMember] = []
        self._sending: asyncio.Task[None] | None = None

    def count(self, *waiting: "BatchMember") -> None:
        """Count a case that has reached its call, and waits for it, or that will not reach it."""
        self._missing -= 1
        self._waiting += waiting
        if self._missing == 0 and self._waiting:
            self._waiting.sort(key=lambda member: member.place)
            self._sending = asyncio.create_task(self._send(self._waiting[0].provider))

    async def _send(self, provider: Adapter) -> None:
        try:
            responses = await _send_together(provider, [member.request for member in self._waiting])
        except ProviderError as error:  # after any error, each case gets its own call
            _LOGGER.warning(
                "batching was asked for and did not work, each case is sent by itself: %s", masked(str(error))
            )
            places = asyncio.Semaphore(self._limit)
            await asyncio.gather(*(self._send_one(member, places) for member in self._waiting))
            return
        for member, response in zip(self._waiting, responses, strict=True):
            member.settle(Outcome(response))

    async def _send_one(self, member: "BatchMember", places: asyncio.Semaphore) -> None:
        async with places:
            member.settle(await attempt_async(lambda: member.provider.invoke(member.request)))


async def _send_together(provider: Adapter, requests: Sequence[ProviderRequest]) -> Sequence[ProviderResponse]:
    if not isinstance(provider, BatchProvider):
        raise ProviderError("this kind of provider cannot batch", "config")
    _LOGGER.debug("batching: %d cases go out in one call", len(requests))
    outcome = await attempt_async(lambda: provider.invoke_batch(requests))
    if outcome.error is not None:
        raise ProviderError(str(outcome.error) or type(outcome.error).__name__) from outcome.error
    return one_for_each(requests, outcome.get())


class BatchMember(OuterAdapter):
    """Stands before the adapter of a target: sends the request of one case together with those of the others."""

    keeps_limits = True
    provider: Adapter
    request: ProviderRequest

    def __init__(self, batch: Batch, place: int) -> None:
        self.mode: PromptMode = "lm"
        self.place = place
        self._batch = batch
        self._response: asyncio.Future[Outcome[ProviderResponse]] | None = None
        self._is_counted = False

    def around(self, provider: Adapter) -> Adapter:
        """Take the adapter of the target, and return what asks it."""
        self.provider, self.mode = provider, provider.mode
        return self

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Wait for the other cases, and return the response to this request."""
        if self._is_counted:  # a retry after a time-out
            return await self.provider.invoke(request)
        self._is_counted = True
        self.request, self._response = request, asyncio.get_running_loop().create_future()
        self._batch.count(self)
        return (await self._response).get()

    def settle(self, outcome: Outcome[ProviderResponse]) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_result(outcome)

    def leave(self) -> None:
        """Let the other cases go on if this case has not reached its call."""
        if not self._is_counted:
            self._is_counted = True
            self._batch.count()
