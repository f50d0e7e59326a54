"""Waiting on a busy machine: how much it slows the tests down, threads that end a moment later, and a lock."""

import fcntl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_WORK = 0.05
_SECONDS_TO_END = 10.0


def slowness() -> float:
    """Return how many times longer than on an idle machine things take at this moment; at least 1."""
    started, worked = time.monotonic(), time.thread_time()
    while time.thread_time() - worked < _WORK:
        pass
    return max(1.0, (time.monotonic() - started) / _WORK)


def still_alive(threads: Iterable[threading.Thread]) -> list[str]:
    """Return the names of the threads that do not end. One that has delivered its result ends a moment later."""
    deadline = time.monotonic() + _SECONDS_TO_END
    waiting = list(threads)
    for thread in waiting:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread.name for thread in waiting if thread.is_alive()]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, as another run does that writes to it."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
