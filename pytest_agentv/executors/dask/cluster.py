"""`dask://HOST:PORT`: the workers of a Dask cluster."""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from pytest_agentv.errors import AgentvError
from pytest_agentv.executors.base import ExecutorLost, Reply, Setup, WorkerLost
from pytest_agentv.executors.dask.client import WorkerInfo, connect
from pytest_agentv.executors.dask.left import fetch
from pytest_agentv.executors.dask.link import Link
from pytest_agentv.executors.kept import KeptResult, KeptResults
from pytest_agentv.executors.left_runs import LeftRun, LeftRuns
from pytest_agentv.runtime.threads import run_in_thread

_LOGGER: Final = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 0.2
_REFRESH_SECONDS: Final = 2.0
_NO_WORKER_SECONDS: Final = 30.0
"""How long a job waits for a worker after the last one is lost."""


class DaskWorkers:
    """Sends each job to the worker with the fewest jobs per thread. Used on the run's event loop."""

    def __init__(self, address: str, setup: Setup) -> None:
        """Connect to a cluster and check it. Blocks for a moment. Raises `ClusterError`."""
        self.name = address
        self._cluster, workers = connect(address)
        self._workers = {worker.address: worker for worker in workers}
        self._refused: dict[str, str] = {}
        """Why workers cannot take jobs, by worker."""
        self._unfit: set[str] = set()
        """Workers that could not start a job, because of files or space. Other workers are preferred."""
        self._run = uuid.uuid4().hex
        self._setup = setup
        self._home = KeptResults(setup.kept_folder)
        self._left = LeftRuns(setup.kept_folder)
        try:
            self._left.add(LeftRun(address, self._run))
        except AgentvError:
            self._cluster.close()
            raise
        self._links: dict[str, Link] = {}
        self._links_of: dict[str, Link] = {}
        """Links by the tickets of results that are not written yet."""
        self._has_lost = False
        """Whether a worker may hold the result of a job that counts as lost."""
        self._gone: str | None = None
        """Why no worker can be reached any more."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watching: Future[None] | None = None

    @property
    def processes(self) -> int:
        return max(1, sum(worker.threads for worker in self._workers.values()))

    async def ask(self, ticket: str, parcel: bytes) -> Reply:
        self._start()
        tried: set[str] = set()
        while True:
            link = self._link_of(ticket, tried) or await self._next_link(tried)
            self._links_of[ticket] = link
            reply = await link.ask(ticket, parcel)
            tried.add(link.worker.address)
            if not self._is_unfit(link, reply) or tried.issuperset(self._usable()):
                return reply

    def written(self, ticket: str) -> None:
        link = self._links_of.pop(ticket, None)
        if link is not None and not link.is_lost:
            link.written(ticket)

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        left = await asyncio.gather(*(link.close() for link in self._links.values()))
        for kept in filter(None, left):
            await self._bring_home(kept)
        if not self._has_lost and None not in left:
            self._left.remove([self._run])
        await run_in_thread(self._cluster.close, "agentv-cluster-end")

    async def _bring_home(self, kept: Sequence[KeptResult]) -> None:
        """Keep results that arrived after the end of the run, as after `-x`, for a resumed run."""
        try:
            for each in kept:
                self._home.keep(each)
        except AgentvError:
            self._has_lost = True  # the workers keep them
            return
        tickets = [each.ticket for each in kept]
        for worker in list(self._workers):
            with suppress(Exception):
                telling = self._cluster.tell(worker, do="forget", run=self._run, tickets=tickets)
                await asyncio.wrap_future(self._cluster.submit(telling))

    def _start(self) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._watching = self._cluster.submit(self._watch())

    def _is_unfit(self, link: Link, reply: Reply) -> bool:
        """Whether a worker could not start a job. The job was not paid for, so another worker may run it."""
        if reply.fault is None:
            return False
        if link.worker.address not in self._unfit:
            self._unfit.add(link.worker.address)
            _LOGGER.warning("worker %s starts no cases: %s", link.worker, reply.fault)
        return True

    def _link_of(self, ticket: str, tried: Collection[str]) -> Link | None:
        """Return the previous worker of a ticket, if it can take the ticket again."""
        link = self._links_of.get(ticket)
        is_there = link is not None and not link.is_lost and link.worker.address not in {*tried, *self._refused}
        return link if is_there else None

    async def _next_link(self, tried: Collection[str]) -> Link:
        """Return the least busy worker that was not tried. Waits if there is none; raises `ExecutorLost`."""
        while True:
            link = self._least(tried) or await self._await_worker()
            fault = await link.connect()
            if link.is_lost:
                continue
            if fault is None:
                return link
            self._refused[link.worker.address] = fault
            self._links.pop(link.worker.address, None)
            _LOGGER.warning("worker %s takes no cases: %s", link.worker, fault)

    def _usable(self) -> list[str]:
        return [address for address in self._workers if address not in self._refused]

    def _least(self, tried: Collection[str] = ()) -> Link | None:
        usable = [address for address in self._usable() if address not in tried]
        for address in usable:
            known = self._links.get(address)
            if known is None or known.is_lost:
                worker = self._workers[address]
                self._links[address] = Link(self._cluster, worker, self._run, self._setup, self._lose)
        links = (self._links[address] for address in usable)
        return min(links, key=lambda link: (link.worker.address in self._unfit, link.load), default=None)

    async def _await_worker(self) -> Link:
        deadline = time.monotonic() + _NO_WORKER_SECONDS
        while not (self._gone or self._workers) and time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
            if (link := self._least()) is not None:
                return link
        faults = "".join(f"; {address}: {fault}" for address, fault in self._refused.items())
        raise ExecutorLost(self._gone or f"{self.name} has no worker that takes cases{faults}")

    def _lose(self, link: Link, reason: str) -> None:
        """End the jobs of a lost worker, except those whose results others can find."""
        self._workers.pop(link.worker.address, None)
        self._cluster.submit(self._look_for(link, reason, link.tickets))

    async def _look_for(self, link: Link, reason: str, tickets: Sequence[str]) -> None:
        """Find the remaining workers after a loss. Runs in the client's thread."""
        kept: Mapping[str, KeptResult] = {}
        try:
            workers = await self._cluster.remaining_workers()
            near = [worker for worker in workers if worker.host == link.worker.host]
            kept = await fetch(self._cluster, near, self._run, tickets)
            lost = WorkerLost(f"{link.worker} is gone ({reason})")
        except Exception as error:  # noqa: BLE001 - Dask may raise anything, and jobs must not wait
            workers, lost = [], ExecutorLost(str(error))
        self._call(self._resolve, link, workers, kept, lost)

    def _resolve(
        self, link: Link, workers: Sequence[WorkerInfo], kept: Mapping[str, KeptResult], lost: WorkerLost
    ) -> None:
        if isinstance(lost, ExecutorLost):
            self._gone = str(lost)
        self._learn(workers)
        for ticket in link.tickets:
            self._has_lost = self._has_lost or ticket not in kept
            link.resolve(ticket, Reply(kept[ticket].result) if ticket in kept else lost)

    def _learn(self, workers: Sequence[WorkerInfo]) -> None:
        self._workers = {worker.address: worker for worker in workers}

    async def _watch(self) -> None:
        """Follow the list of workers. Runs in the client's thread."""
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            with suppress(OSError):  # the links notice a lost scheduler
                self._call(self._learn, await self._cluster.workers())

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        assert self._loop is not None
        with suppress(RuntimeError):  # the run is over
            self._loop.call_soon_threadsafe(function, *arguments)
