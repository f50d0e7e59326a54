"""The lifespan of an ASGI application: it is started once, and ended with the run. Runs on the loop of users."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

AsgiMessage: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[
    [AsgiMessage, Callable[[], Awaitable[AsgiMessage]], Callable[[AsgiMessage], Awaitable[None]]], Awaitable[None]
]

VERSIONS = {"version": "3.0", "spec_version": "2.3"}


class LifespanError(Exception):
    """The application says that it cannot start, or end; the text is its own."""


class Lifespan:
    """The lifespan of one application."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.state: dict[str, Any] = {}
        """What the application keeps for its requests."""
        self._to_app: asyncio.Queue[AsgiMessage] = asyncio.Queue()
        self._from_app: asyncio.Queue[AsgiMessage | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the application. One that knows no lifespan needs no start. Raises `LifespanError`."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        await self._tell("startup")

    async def stop(self) -> None:
        """End the application. Raises `LifespanError`."""
        if self._task is None or self._task.done():
            return
        await self._tell("shutdown")
        await self._task

    async def _tell(self, word: str) -> None:
        await self._to_app.put({"type": f"lifespan.{word}"})
        message = await self._from_app.get()
        if message is not None and message["type"] == f"lifespan.{word}.failed":
            raise LifespanError(str(message.get("message") or f"it reported that its {word} failed"))

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": VERSIONS, "state": self.state}
        try:
            await self._app(scope, self._to_app.get, self._from_app.put)
        except Exception:  # noqa: BLE001, S110 - an application that knows no lifespan raises what it likes
            pass
        finally:
            self._from_app.put_nowait(None)
