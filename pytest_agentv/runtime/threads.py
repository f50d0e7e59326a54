"""Blocking code beside the event loop."""

import asyncio
import contextvars
import threading
from asyncio import Future
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def run_in_thread(function: Callable[[], T], name: str) -> T:
    """Run a function in a daemon thread of its own, within the caller's context variables.

    Not in a pool: those are joined when the interpreter exits, and a function that hangs would keep it from doing so.
    When the caller is cancelled the thread is abandoned; its result is dropped.
    """
    loop = asyncio.get_running_loop()
    outcome: Future[Callable[[], T]] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        result = _attempt(lambda: context.run(function))
        with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
            loop.call_soon_threadsafe(_deliver, outcome, result)

    threading.Thread(target=work, name=name, daemon=True).start()
    return (await outcome)()


def _attempt(function: Callable[[], T]) -> Callable[[], T]:
    """Call a function; return one that returns, or raises, the same."""
    try:
        value = function()
    except BaseException as error:  # noqa: BLE001 - it is raised again, in the thread that waits
        caught = error

        def fail() -> T:
            raise caught

        return fail
    return lambda: value


def _deliver(outcome: "Future[T]", result: T) -> None:
    if not outcome.done():
        outcome.set_result(result)
