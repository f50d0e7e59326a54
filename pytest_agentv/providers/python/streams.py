"""Reads generators to their end, because functions may yield their answer in chunks."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.providers.python.frameworks.plain import SIZE_LIMIT, TooLargeError


@record
class Chunks(Record):
    """All values of a generator, in order."""

    parts: tuple[Any, ...]


async def gather(stream: AsyncIterator[Any]) -> Chunks:
    """Read an asynchronous generator to its end. Raises `TooLargeError`."""
    budget = _Budget()
    return Chunks(tuple([budget.take(part) async for part in stream]))


def gather_sync(stream: Iterator[Any]) -> Chunks:
    """Read a generator to its end. Blocks. Raises `TooLargeError`, and `ProviderError` if it returns a value."""
    budget, parts, chunks = _Budget(), list[Any](), iter(stream)
    while True:
        try:
            part = next(chunks)
        except StopIteration as end:
            if end.value is not None:
                message = f"the generator ends with `return` and a {type(end.value).__name__}: yield it, or it is lost"
                raise ProviderError(message, "config") from None
            return Chunks(tuple(parts))
        parts.append(budget.take(part))


class _Budget:
    """Ends an endless generator before memory ends."""

    def __init__(self) -> None:
        self._left = SIZE_LIMIT

    def take(self, part: Any) -> Any:
        self._left -= 1 + len(part) if isinstance(part, str) else 100
        if self._left < 0:
            raise TooLargeError
        return part
