"""Blocking code beside the event loop."""

import asyncio
import contextvars
import threading
from asyncio import Future
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from pytest_agentv.runtime.outcomes import Outcome, attempt

T = TypeVar("T")


async def run_in_thread(function: Callable[[], T], name: str) -> T:
    """Run a function as `attempt_in_thread` does; return its value, or raise its error."""
    return (await attempt_in_thread(function, name)).get()


async def attempt_in_thread(function: Callable[[], T], name: str) -> Outcome[T]:
    """Run a function in a daemon thread of its own, within the caller's context variables.

    Not in a pool: those are joined when the interpreter exits, and a function that hangs would keep it from doing so.
    When the caller is cancelled the thread is abandoned; its result is dropped.
    """
    loop = asyncio.get_running_loop()
    ended: Future[Outcome[T]] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        outcome = attempt(lambda: context.run(function))
        with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
            loop.call_soon_threadsafe(_deliver, ended, outcome)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await ended


def _deliver(ended: "Future[Outcome[T]]", outcome: Outcome[T]) -> None:
    if not ended.done():
        ended.set_result(outcome)
