"""`dask://HOST:PORT`: the workers of a Dask cluster, the jobs of each, and the results that they keep."""

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pytest_agentv.engine.pool import check_together, raise_finding
from pytest_agentv.errors import AgentvError, ProviderError, locate
from pytest_agentv.executors.base import ExecutorLost, Frame, FrameReader, JobRefused, Reply, Setup, WorkerLost, pack
from pytest_agentv.executors.dask_client import Cluster, ClusterError, WorkerInfo, connect
from pytest_agentv.executors.dask_remote import hold
from pytest_agentv.executors.engine import PROBE, PROBED
from pytest_agentv.executors.kept import KeptResult, KeptResults, LeftRun, LeftRuns
from pytest_agentv.executors.worker import END_SECONDS
from pytest_agentv.runtime.user_code import run_in_thread

# Exchanges messages between a run and one Dask worker, in the thread of Dask's client.

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


# The run's side of shared health checks: one worker checks a target, and the others wait for its finding.


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


# The jobs of one Dask worker. Used on the run's event loop.

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


# Fetches the results that the workers of a cluster keep until the results file has them, also of a killed run.


async def fetch(
    cluster: Cluster, workers: Collection[WorkerInfo], run: str, tickets: Collection[str] | None = None
) -> dict[str, KeptResult]:
    """Return the kept results of some jobs, or of a whole run, which the workers end first. Skips lost workers."""
    found: dict[str, KeptResult] = {}
    for worker in workers:
        with suppress(OSError, ClusterError):  # the worker is gone, or has another version
            await cluster.prepare([worker])
            kept = await cluster.collect(worker.address, run, tickets)
            found |= {each.ticket: each for each in kept}
    return found


def bring_home(lefts: LeftRuns, address: str | None) -> None:
    """Fetch the kept results of killed runs, so that a resumed run finds them.

    `address` is the cluster of the resumed run; None: that of the killed run.

    Raises `ClusterError` if the cluster cannot be reached, because its results were paid for.
    """
    home = KeptResults(lefts.path.parent)
    for left in lefts.all():
        try:
            cluster, workers = connect(address or left.address)
        except ClusterError as error:
            where = locate(lefts.path, None)
            text = f"{error}\nIts workers may keep results that were paid for. To do without them, delete {where}"
            raise ClusterError(text) from None
        try:
            cluster.submit(_bring(cluster, workers, left.run, home)).result()
        finally:
            cluster.close()
        lefts.remove([left.run])


async def _bring(cluster: Cluster, workers: Collection[WorkerInfo], run: str, home: KeptResults) -> None:
    found = await fetch(cluster, workers, run)
    for kept in found.values():
        home.keep(kept)
    for worker in workers:
        with suppress(OSError):
            await cluster.tell(worker.address, do="forget", run=run, tickets=list(found))


# `dask://HOST:PORT`: the workers of a Dask cluster.

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
