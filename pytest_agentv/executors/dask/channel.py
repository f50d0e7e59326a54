"""Exchanges messages between a run and one Dask worker, in the thread of Dask's client."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, Final

from pytest_agentv.executors.dask.client import Cluster, WorkerInfo
from pytest_agentv.executors.dask.remote import hold
from pytest_agentv.executors.kept import KeptResult

_PATIENCE_SECONDS: Final = 5.0
"""How long a worker waits for a message to send."""


class Channel:
    """Two exchanges at a time: one waits for replies, the other sends messages that were collected meanwhile."""

    def __init__(
        self,
        cluster: Cluster,
        worker: WorkerInfo,
        run: str,
        take: Callable[[bytes], None],
        lose: Callable[[str], None],
    ) -> None:
        """Prepare a channel. `take` and `lose` are called in the client's thread; `lose` once, with the reason."""
        self._cluster = cluster
        self._worker = worker
        self._run = run
        self._take = take
        self._lose = lose
        self._outbox: list[bytes] = []
        self._has_mail = asyncio.Event()
        self._holder: Any = None
        self._tasks: list[asyncio.Task[None]] = []
        self._is_open = False

    async def open(self, setup: bytes) -> str | None:
        """Start a session on the worker. Return why that failed."""
        task = f"agentv-{self._run}-{uuid.uuid4().hex}"
        where = {"workers": [self._worker.address], "allow_other_workers": False}
        try:
            await self._cluster.prepare([self._worker])
            self._holder = self._cluster.client.submit(hold, key=task, pure=False, retries=0, **where)
            fault: str | None = await self._cluster.tell(
                self._worker.address, do="open", run=self._run, task=task, setup=setup
            )
        except Exception as error:  # noqa: BLE001 - Dask may raise anything, and other workers may do
            return _text(error)
        if fault is None:
            self._is_open = True
            self._tasks = [asyncio.ensure_future(each) for each in (self._send(), self._receive())]
        return fault

    def post(self, data: bytes) -> None:
        """Send messages to the worker soon."""
        self._outbox.append(data)
        self._has_mail.set()

    async def close(self) -> list[KeptResult]:
        """End the session with all its jobs. Return the results that the run has not written.

        Raises Dask's errors if the worker cannot be reached.
        """
        self._is_open = False
        self._has_mail.set()
        try:
            await asyncio.gather(*self._tasks[:1])  # results that were written, so that the worker drops them
            return await self._cluster.collect(self._worker.address, self._run)
        finally:
            self.release()

    def release(self) -> None:
        """Release the worker's task in Dask."""
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        if self._holder is not None:
            self._holder.release()
            self._holder = None

    async def _send(self) -> None:
        is_going_on = True
        while is_going_on:
            await self._has_mail.wait()
            is_last = not self._is_open
            is_going_on = await self._exchange(0) and not is_last

    async def _receive(self) -> None:
        while await self._exchange(_PATIENCE_SECONDS):
            pass

    async def _exchange(self, patience: float) -> bool:
        """Send the queued messages, and receive others. Return whether the session goes on."""
        data = b""
        if not patience:  # through one channel, so that messages arrive in order
            data, self._outbox = b"".join(self._outbox), []
            self._has_mail.clear()
        try:
            found = await self._cluster.tell(
                self._worker.address, do="exchange", run=self._run, data=data, patience=patience
            )
        except Exception as error:  # noqa: BLE001 - Dask may raise anything: the worker cannot be reached
            self._end(_text(error))
            return False
        if found is None:
            self._end("it has ended what it ran")
            return False
        if found:
            self._take(bytes(found))
        return True

    def _end(self, reason: str) -> None:
        if self._is_open:
            self._is_open = False
            self._lose(reason)
            self.release()


def _text(error: Exception) -> str:
    if isinstance(error, OSError):
        return "its connection broke"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}".removesuffix(": ")
