"""How much a busy machine slows the tests down, for limits of time that a promise names."""

import time

_WORK = 0.05


def slowness() -> float:
    """Return how many times longer than on an idle machine things take at this moment; at least 1."""
    started, worked = time.monotonic(), time.thread_time()
    while time.thread_time() - worked < _WORK:
        pass
    return max(1.0, (time.monotonic() - started) / _WORK)
