"""Keeps many cases in flight, up to a limit per group. Starts the next case as soon as one ends."""

import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pytest_agentv.runtime.loop import AnyFuture, LoopThread, hand_on

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Job(Generic[T]):
    """A coroutine to start, and the future of its result."""

    start: Callable[[], Coroutine[Any, Any, T]]
    group: str
    limit: int
    future: "Future[T]"


class Scheduler(Generic[T]):
    """An ordered queue of jobs, run on the event loop; used from any thread.

    Jobs of a group share a limit. Jobs start in the order of submission when their group has room. `start_now` starts
    a job at once. While `may_start` returns False, no other job starts; `start_waiting` calls it again.
    """

    def __init__(self, loop: LoopThread, may_start: Callable[[], bool] = lambda: True) -> None:
        self._loop = loop
        self._may_start = may_start
        self._lock = threading.Lock()  # guards the queue and the counts
        self._queue: deque[_Job[T]] = deque()
        self._in_flight: Counter[str] = Counter()

    @property
    def in_flight(self) -> int:
        return sum(self._in_flight.values())

    @property
    def unfinished(self) -> int:
        """Number of jobs that run or wait."""
        return self.in_flight + len(self._queue)

    def submit(self, start: Callable[[], Coroutine[Any, Any, T]], *, group: str, limit: int) -> "Future[T]":
        """Queue a job. Its future gets the result or the error of the coroutine."""
        job = _Job(start, group, limit, Future())
        with self._lock:
            self._queue.append(job)
        self.start_waiting()
        return job.future

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
        """Start waiting jobs while there is room."""
        while (job := self._next_job()) is not None:
            self._start(job)

    def _next_job(self) -> _Job[T] | None:
        with self._lock:
            for job in self._queue if self._may_start() else ():
                if self._in_flight[job.group] < job.limit:
                    self._queue.remove(job)
                    self._in_flight[job.group] += 1
                    return job
        return None

    def _start(self, job: _Job[T]) -> None:
        self._loop.start(job.start(), lambda done: self._end(job, done))

    def _end(self, job: _Job[T], done: AnyFuture[T]) -> None:
        with self._lock:
            self._in_flight[job.group] -= 1
        self.start_waiting()
        hand_on(done, job.future)
