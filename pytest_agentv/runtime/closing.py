"""Closes resources before an event loop ends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

Closer: TypeAlias = Callable[[], Awaitable[None]]

_CLOSERS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, list[Closer]]] = WeakKeyDictionary()


def close_with_loop(closer: Closer) -> None:
    """Register a function to be called once, on the running loop, before it ends."""
    _CLOSERS.setdefault(asyncio.get_running_loop(), []).append(closer)


async def close_all() -> None:
    """Close the registered resources of the running loop, even if closing one fails."""
    closers = _CLOSERS.pop(asyncio.get_running_loop(), [])
    await asyncio.gather(*(closer() for closer in closers), return_exceptions=True)
