"""Tells other threads whether an event loop has something to do."""

import select
import selectors
import time
from queue import SimpleQueue


class IdleSelector(selectors.DefaultSelector):
    """The selector of an event loop: what every loop asks before it goes to sleep.

    A loop that was woken can say so only when it is given the interpreter. `is_idle` looks at what would wake it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._listener: SimpleQueue[None] | None = None
        self._is_asleep = False
        self._wakes_at = 0.0
        self._woken = select.poll()
        self._woken.register(self.fileno(), select.POLLIN)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        self._wakes_at = float("inf") if timeout is None else time.perf_counter() + timeout
        self._is_asleep = True
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.put(None)
        try:
            return super().select(timeout)
        finally:
            self._is_asleep = False

    def next_sleep(self) -> "SimpleQueue[None]":
        """Return a queue that gets an entry when the loop has done all there is to do.

        A queue, because Ctrl-C can leave the lock inside of an event taken for ever. There is one listener at a time.
        """
        listener: SimpleQueue[None] = SimpleQueue()
        self._listener = listener
        return listener

    @property
    def is_idle(self) -> bool:
        """Whether the loop sleeps, and what it sleeps for has not come."""
        return self._is_asleep and time.perf_counter() < self._wakes_at and not self._woken.poll(0)
