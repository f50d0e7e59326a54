"""Keeps many cases in flight, up to a limit per group. Starts the next case as soon as one ends."""

import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pytest_agentv.runtime.loop import AnyFuture, LoopThread, hand_on

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
            job = next((job for job in self._queue if job.future is future), None)
            if job is None:
                return
            self._queue.remove(job)
            self._in_flight[job.group] += 1
        self._start(job)

    def drop(self, future: "Future[T]") -> bool:
        """Remove a waiting job from the queue and cancel its future. Return whether it was waiting."""
        with self._lock:
            job = next((job for job in self._queue if job.future is future), None)
            if job is None:
                return False
            self._queue.remove(job)
        future.cancel()
        return future.set_running_or_notify_cancel() is False

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
