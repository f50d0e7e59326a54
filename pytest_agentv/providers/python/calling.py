"""Calls user code: async functions on the loop for user code, sync ones in threads of their own."""

import inspect
import time
from asyncio import timeout as time_limit
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.text import format_number
from pytest_agentv.providers.python.frameworks.table import finisher_of
from pytest_agentv.providers.python.streams import gather, gather_sync
from pytest_agentv.runtime.outcomes import Outcome
from pytest_agentv.runtime.threads import attempt_in_thread
from pytest_agentv.runtime.user_errors import leaves, user_traceback
from pytest_agentv.runtime.user_loop import USER_LOOP, CallTimeoutError

Function: TypeAlias = Callable[..., Any]
T = TypeVar("T")


async def call_user(
    function: Function,
    arguments: Sequence[object],
    keywords: Mapping[str, Any],
    *,
    label: str,
    limit: float | None,
) -> object:
    """Call a user's function: an async one on the loop for user code, a sync one in a thread of its own.

    Reads generators and streamed runs to their end. Raises `ProviderError` for any exception of the function, and if it
    exceeds the limit.
    """
    if _is_async(function) or _is_async(type(function).__call__):
        return await call_async(lambda: _finished(function(*arguments, **keywords)), label, limit)
    started = time.monotonic()
    try:
        async with time_limit(limit):
            outcome = await attempt_in_thread(lambda: _gathered(function(*arguments, **keywords)), "agentv-python")
    except TimeoutError as error:
        note = "; a sync function cannot be stopped: its thread runs on until it returns"
        raise _timeout_error(label, limit, note) from error
    value: object = _value_of(outcome, label)
    if not is_unfinished(value):
        return value
    rest = None if limit is None else max(0, limit - (time.monotonic() - started))
    return await call_async(lambda: _finished(value), label, rest, whole_limit=limit)


async def call_async(
    start: Callable[[], Awaitable[T]], label: str, limit: float | None, *, whole_limit: float | None = None
) -> T:
    """Await a user's coroutine on the loop for user code. An answer after the limit does not count.

    Raises `ProviderError` for any exception of the coroutine, and if it cancels itself.
    """
    try:
        outcome = await USER_LOOP.call(start, limit)
    except CallTimeoutError as error:
        note = "; the event loop of async functions is blocked: call nothing that blocks in them, or use `def`"
        raise _timeout_error(
            label, limit if whole_limit is None else whole_limit, note if error.is_blocked else ""
        ) from None
    return _value_of(outcome, label)


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def is_unfinished(value: object) -> bool:
    """Whether a value must be awaited, or read to its end on a loop."""
    return isinstance(value, Awaitable | AsyncIterator) or finisher_of(value) is not None


async def _finished(value: Any) -> object:
    """Await a value, and read a stream to its end."""
    while isinstance(value, Awaitable):
        value = await value
    finish = finisher_of(value)
    if finish is not None:
        return await finish(value)
    if isinstance(value, AsyncIterator):
        return await gather(value)
    return _gathered(value)


def _gathered(value: object) -> object:
    """Read a generator to its end. Blocks."""
    return gather_sync(value) if isinstance(value, Iterator) else value


def _value_of(outcome: Outcome[T], label: str) -> T:
    error = outcome.error
    if error is None:
        return outcome.get()
    causes = leaves(error)
    if len(causes) == 1 and isinstance(causes[0], ProviderError):
        raise causes[0]  # the function may raise the error kind itself
    is_timeout = all(isinstance(cause, TimeoutError) for cause in causes)
    raise ProviderError(f"{label} raised {user_traceback(error)}", "timeout" if is_timeout else "crash") from error


def _timeout_error(label: str, limit: float | None, note: str) -> ProviderError:
    return ProviderError(f"{label} timed out after {format_number(limit or 0)}s{note}", "timeout")
