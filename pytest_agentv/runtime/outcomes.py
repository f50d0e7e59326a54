"""Runs user code so that its errors cannot end the run, and cannot look like a cancellation of the run."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from pytest_agentv.models.records import record

T = TypeVar("T")


@record
class Outcome(Generic[T]):
    """The value or the error of a call.

    Errors are values here, because some end the event loop if a task raises them.
    """

    value: T | None = None
    error: BaseException | None = None

    def get(self) -> T:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value] # it is of type T if there is no error


def attempt(function: Callable[[], T]) -> Outcome[T]:
    """Call a function."""
    try:
        return Outcome(function())
    except BaseException as error:  # noqa: BLE001 - it becomes a value
        return Outcome(error=error)


async def attempt_async(start: Callable[[], Awaitable[T]]) -> Outcome[T]:
    """Await what a function returns in its own task, so that its cancellation differs from the caller's.

    Raises only `CancelledError`, and only when the caller is cancelled.
    """
    task = asyncio.ensure_future(capture(start))
    caller = asyncio.current_task()
    before = caller.cancelling() if caller else 0
    try:
        outcome = await task
    except asyncio.CancelledError as error:  # a task can also cancel itself
        outcome = Outcome(error=error)
    if caller is not None and caller.cancelling() > before:
        raise asyncio.CancelledError
    return outcome


async def attempt_here(start: Callable[[], Awaitable[T]]) -> Outcome[T]:
    """Await what a function returns in the caller's task. Only for our own code, which never cancels its own task.

    Raises like `attempt_async`. A separate task would cost three turns of the loop.
    """
    caller = asyncio.current_task()
    before = caller.cancelling() if caller else 0
    try:
        outcome = Outcome(await start())
    except BaseException as error:  # noqa: BLE001 - it becomes a value
        outcome = Outcome(error=error)
    if caller is not None and caller.cancelling() > before:
        raise asyncio.CancelledError
    return outcome


async def capture(start: Callable[[], Awaitable[T]]) -> Outcome[T]:
    """Await what a function returns, in the caller's task."""
    try:
        return Outcome(await start())
    except BaseException as error:  # noqa: BLE001 - it becomes a value
        return Outcome(error=error)
