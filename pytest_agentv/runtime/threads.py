"""Runs blocking code in threads beside the event loop."""

import asyncio
import atexit
import contextvars
import logging
import threading
from asyncio import Future
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar
from weakref import WeakSet

from pytest_agentv.runtime.outcomes import Outcome, attempt

T = TypeVar("T")

_LOCK_SECONDS: Final = 5.0

_abandoned: "WeakSet[threading.Thread]" = WeakSet()


async def run_in_thread(function: Callable[[], T], name: str, *, stop: bool = False) -> T:
    """Run a function like `attempt_in_thread`, and return its value or raise its error."""
    return (await attempt_in_thread(function, name, stop=stop)).get()


async def attempt_in_thread(function: Callable[[], T], name: str, *, stop: bool = False) -> Outcome[T]:
    """Run a function in its own daemon thread, with the caller's context variables.

    It uses no pool, because the interpreter joins pool threads at exit and a function that hangs would block it.
    A cancelled caller abandons the thread and drops its result. With `stop`, `SystemExit` is raised in the thread. That
    ends a loop of Python code; a call of C code ends first.
    """
    loop = asyncio.get_running_loop()
    ended: Future[Outcome[T]] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        outcome = attempt(lambda: context.run(function))
        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            loop.call_soon_threadsafe(_deliver, ended, outcome)

    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # the system gives no more threads
        return Outcome(error=error)
    try:
        return await ended
    except asyncio.CancelledError:
        abandon(thread)
        if stop:
            _raise_exit_in(thread)
        raise


def _raise_exit_in(thread: threading.Thread) -> None:
    import ctypes  # noqa: PLC0415 - only for code that exceeded its limit

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))


def _deliver(ended: "Future[Outcome[T]]", outcome: Outcome[T]) -> None:
    if not ended.done():
        ended.set_result(outcome)


def abandon(thread: threading.Thread) -> None:
    """Abandon a daemon thread, so that the process can end even if the thread holds the lock of `logging`.

    At its end, the interpreter stops daemon threads without releasing their locks. It then removes the handlers of
    `logging`, for which it needs the lock of that module. So a thread that was stopped in `getLogger` would make the
    process hang. May be called from any thread.
    """
    if not _abandoned:
        atexit.register(_keep_logging_free)
    _abandoned.add(thread)


def _keep_logging_free() -> None:
    """Take the lock of `logging` for the rest of the process, if an abandoned thread could hold it at the end."""
    if not any(thread.is_alive() for thread in tuple(_abandoned)):
        return
    atexit.unregister(logging.shutdown)
    logging.shutdown()  # before the lock: handlers end threads that may wait for it
    lock = getattr(logging, "_lock", None)
    if lock is not None:
        lock.acquire(timeout=_LOCK_SECONDS)
