"""The run's side of shared health checks: one worker checks a target, and the others wait for its finding."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_agentv.engine.targets.checks import check_together, raise_finding
from pytest_agentv.errors import ProviderError
from pytest_agentv.executors.base import WorkerLost
from pytest_agentv.executors.frames import Frame
from pytest_agentv.executors.probes import PROBE


class LinkProbes:
    """The health checks of one Dask worker. The process of the run shares the findings."""

    def __init__(self, folder: Path, send: Callable[[Frame], None]) -> None:
        self._folder = folder
        self._send = send
        self._checking: dict[str, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, frame: Frame) -> None:
        """Handle a question or a finding."""
        if frame.word == PROBE:
            task = asyncio.ensure_future(self._decide(frame.ticket))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif frame.ticket in self._checking and not self._checking[frame.ticket].done():
            self._checking[frame.ticket].set_result(json.loads(frame.body))

    def lose(self) -> None:
        """Let other workers take over the checks of a lost worker."""
        for checking in self._checking.values():
            if not checking.done():
                checking.set_result(None)

    async def _decide(self, ticket: str) -> None:
        key = ticket.partition(" ")[2]  # the other part distinguishes the processes of the worker
        found: dict[str, str] | None = {}
        try:
            await check_together(self._folder, key, lambda: self._check_there(ticket))
        except ProviderError as error:
            found = {"error": str(error), "kind": error.kind}
        except Exception:  # noqa: BLE001 - if findings cannot be shared, each worker checks by itself
            found = None
        if self._checking.pop(ticket, None) is None:
            self._send(Frame(PROBE, ticket, json.dumps(found).encode()))

    async def _check_there(self, ticket: str) -> None:
        checking = self._checking[ticket] = asyncio.get_running_loop().create_future()
        self._send(Frame(PROBE, ticket, json.dumps(None).encode()))
        found = await checking
        if found is None:
            raise WorkerLost("the health check did not end")
        raise_finding(found)
