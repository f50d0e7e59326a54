"""The jobs of one Dask worker. Used on the run's event loop."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from pytest_agentv.executors.base import Reply, Setup, WorkerLost
from pytest_agentv.executors.dask.channel import Channel
from pytest_agentv.executors.dask.client import Cluster, WorkerInfo
from pytest_agentv.executors.dask.probing import LinkProbes
from pytest_agentv.executors.frames import Frame, FrameReader
from pytest_agentv.executors.kept import KeptResult
from pytest_agentv.executors.probes import PROBE, PROBED
from pytest_agentv.executors.shipping.packing import JobRefused, pack
from pytest_agentv.executors.worker import END_SECONDS

_GRACE_SECONDS: Final = END_SECONDS + 1


class Link:
    """Sends jobs to a worker, and distributes its replies.

    It uses callbacks instead of a task, because the run cancels all tasks of the loop at its end, but still waits for
    replies.
    """

    def __init__(
        self,
        cluster: Cluster,
        worker: WorkerInfo,
        run: str,
        setup: Setup,
        on_lost: Callable[["Link", str], None],
    ) -> None:
        """Prepare a link. `on_lost` is called with the reason, and ends the jobs by `resolve`."""
        self.worker = worker
        self.is_lost = False
        self._cluster = cluster
        self._setup = pack(setup)
        self._probes = LinkProbes(setup.shared_folder, self._send)
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._channel = Channel(cluster, worker, run, self._feed, self._lose)
        self._reader = FrameReader(self._take)
        self._open: dict[str, asyncio.Future[Reply]] = {}
        self._arriving = 0
        self._opening: Future[str | None] | None = None
        self._outbox: list[Frame] = []
        self._written: list[str] = []

    @property
    def load(self) -> float:
        """The number of jobs per thread of the worker."""
        return (len(self._open) + self._arriving) / max(1, self.worker.threads)

    @property
    def tickets(self) -> Sequence[str]:
        return list(self._open)

    async def connect(self) -> str | None:
        """Connect once. Return why that failed."""
        self._arriving += 1
        try:
            if self._opening is None:
                self._opening = self._cluster.submit(self._channel.open(self._setup))
            return await asyncio.shield(asyncio.wrap_future(self._opening))
        finally:
            self._arriving -= 1

    async def ask(self, ticket: str, parcel: bytes) -> Reply:
        """Run a job. Raises `WorkerLost` or `JobRefused`."""
        if self.is_lost:
            raise WorkerLost(f"worker {self.worker} is gone")
        replied = self._open[ticket] = self._loop.create_future()
        self._send(Frame("job", ticket, parcel))
        try:
            reply: Reply = await asyncio.shield(replied)
        except asyncio.CancelledError:
            self._send(Frame("cancel", ticket))
            await asyncio.wait([replied], timeout=_GRACE_SECONDS)
            raise
        finally:
            self._open.pop(ticket, None)
            if replied.done() and not replied.cancelled():
                replied.exception()  # retrieved even if the job was cancelled
        if reply.refused is not None:
            raise JobRefused(reply.refused)
        return reply

    def written(self, ticket: str) -> None:
        """Make the worker drop a result, with the next message."""
        self._written.append(ticket)
        if len(self._written) == 1:
            self._schedule()

    def resolve(self, ticket: str, outcome: Reply | WorkerLost) -> None:
        """End a job of a lost worker."""
        replied = self._open.get(ticket)
        if replied is None or replied.done():
            return
        if isinstance(outcome, Reply):
            replied.set_result(outcome)
        else:
            replied.set_exception(outcome)

    async def close(self) -> Sequence[KeptResult] | None:
        """End all jobs on the worker for the run. Return the results that are not written; None: unknown."""
        self._flush()
        if self._opening is None or self.is_lost:
            return ()
        closing = self._cluster.submit(self._channel.close())
        try:
            return await asyncio.wait_for(asyncio.wrap_future(closing), _GRACE_SECONDS)
        except Exception:  # noqa: BLE001 - Dask may raise anything; the run is over
            return None

    def _send(self, frame: Frame) -> None:
        self._outbox.append(frame)
        self._schedule()

    def _schedule(self) -> None:
        if len(self._outbox) + len(self._written) == 1:  # messages of the same turn of the loop go together
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        frames, self._outbox = self._outbox, []
        if self._written:
            frames.append(Frame("written", body=" ".join(self._written).encode()))
            self._written = []
        if frames:
            self._cluster.call(self._channel.post, b"".join(frame.to_bytes() for frame in frames))

    def _feed(self, data: bytes) -> None:
        with suppress(RuntimeError):  # the run is over
            self._loop.call_soon_threadsafe(self._reader.feed, data)

    def _lose(self, reason: str) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._lost, reason)

    def _lost(self, reason: str) -> None:
        self.is_lost = True
        self._probes.lose()
        self._on_lost(self, reason)

    def _take(self, frame: Frame) -> None:
        if frame.word == "reply":
            self.resolve(frame.ticket, Reply.from_bytes(frame.body))
        elif frame.word in (PROBE, PROBED):
            self._probes.take(frame)
        else:
            self.resolve(frame.ticket, WorkerLost(f"{frame.body.decode()} on worker {self.worker}"))
