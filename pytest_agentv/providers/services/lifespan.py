"""The lifespan of an ASGI application, from its start to the end of the run. Runs on the loop for user code."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

AsgiMessage: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[
    [AsgiMessage, Callable[[], Awaitable[AsgiMessage]], Callable[[AsgiMessage], Awaitable[None]]], Awaitable[None]
]

VERSIONS = {"version": "3.0", "spec_version": "2.3"}


class LifespanError(Exception):
    """The application reports that it cannot start or end. The text is its own."""


class Lifespan:
    """The lifespan of one application."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.state: dict[str, Any] = {}
        """The state that the application keeps for its requests."""
        self._to_app: asyncio.Queue[AsgiMessage] = asyncio.Queue()
        self._from_app: asyncio.Queue[AsgiMessage | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._has_begun = False
        self._error: Exception | None = None

    @property
    def fault(self) -> str | None:
        """The exception of the application in its lifespan.

        It counts only if the application received the startup event.
        """
        error = self._error
        return f"{type(error).__name__}: {error}" if error is not None and self._has_begun else None

    async def start(self) -> None:
        """Start the application, unless it has no lifespan. Raises `LifespanError`."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        await self._tell("startup")

    async def stop(self) -> None:
        """End the application. Raises `LifespanError`."""
        if self._task is None:
            return
        if not self._task.done():
            await self._tell("shutdown")
            await self._task
        if self.fault:
            raise LifespanError(self.fault)

    async def _tell(self, word: str) -> None:
        await self._to_app.put({"type": f"lifespan.{word}"})
        message = await self._from_app.get()
        if message is not None and message["type"] == f"lifespan.{word}.failed":
            raise LifespanError(str(message.get("message") or f"it reported that its {word} failed"))

    async def _receive(self) -> AsgiMessage:
        self._has_begun = True
        return await self._to_app.get()

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": VERSIONS, "state": self.state}
        try:
            await self._app(scope, self._receive, self._from_app.put)
        except Exception as error:  # noqa: BLE001 - an application without a lifespan may raise anything
            self._error = error
        finally:
            self._from_app.put_nowait(None)
