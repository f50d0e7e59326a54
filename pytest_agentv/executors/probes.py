"""Shares health checks among workers without a common folder. The process of the run decides who checks a target."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from pytest_agentv.engine.targets.checks import finding, raise_finding
from pytest_agentv.executors.frames import Frame

PROBE: Final = "probe"
"""Asks whether to check a target. The reply is the finding, or null to check it."""
PROBED: Final = "probed"
"""Carries the finding of a worker; null: its check did not end."""


class Probes:
    """The worker's side. Used on its event loop, except for `answer`."""

    def __init__(self, send: Callable[[Frame], None]) -> None:
        self._send = send
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked: dict[str, asyncio.Future[Any]] = {}

    async def together(self, key: str, check: Callable[[], Awaitable[None]], homeward: Callable[[str], str]) -> None:
        """Check, unless another worker has done so.

        Raise its finding. `homeward` converts paths to those of the run.
        """
        key = homeward(key)
        self._loop = asyncio.get_running_loop()
        answered = self._asked[key] = self._loop.create_future()
        self._send(Frame(PROBE, key))
        found = await answered
        if found is None:
            try:
                found = {name: homeward(text) for name, text in (await finding(check)).items()}
            finally:
                self._send(Frame(PROBED, key, json.dumps(found).encode()))
        raise_finding(found)

    def answer(self, frame: Frame) -> None:
        """Take a reply of the process of the run. Any thread may call it."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the worker is ending
                self._loop.call_soon_threadsafe(self._answer, frame.ticket, json.loads(frame.body))

    def _answer(self, key: str, found: Any) -> None:
        answered = self._asked.pop(key, None)
        if answered is not None and not answered.done():
            answered.set_result(found)
