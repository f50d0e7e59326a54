"""Tells other threads whether an event loop has something to do."""

import select
import selectors
import threading
import time


class IdleSelector(selectors.DefaultSelector):
    """The selector of an event loop: what every loop asks before it goes to sleep.

    A loop that was woken can say so only when it is given the interpreter. `is_idle` looks at what would wake it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fell_asleep = threading.Event()
        """Set when the loop has done all there was to do; whoever waits for the next time clears it."""
        self._is_asleep = False
        self._wakes_at = 0.0
        self._woken = select.poll()
        self._woken.register(self.fileno(), select.POLLIN)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        self._wakes_at = float("inf") if timeout is None else time.perf_counter() + timeout
        self._is_asleep = True
        self.fell_asleep.set()
        try:
            return super().select(timeout)
        finally:
            self._is_asleep = False

    @property
    def is_idle(self) -> bool:
        """Whether the loop sleeps, and what it sleeps for has not come."""
        return self._is_asleep and time.perf_counter() < self._wakes_at and not self._woken.poll(0)
