"""The code on a Dask worker: passes messages between a run and worker processes of its own.

A case never runs in Dask's own process. Modules of an earlier run would still be loaded there, and a crashing target
would end the work of others.
"""

import asyncio
import json
import os
import shutil
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from distributed import Status, get_worker, secede

from pytest_agentv.executors.base import Frame, FrameReader, JobRefused, Reply, Setup, WorkerLost, unpack
from pytest_agentv.executors.engine import PROBE
from pytest_agentv.executors.kept import KeptResults
from pytest_agentv.executors.processes import Processes, WorkerProcess

OPERATION: Final = "agentv"
"""The name of our handler in a Dask worker."""
_KEPT: Final = "agentv-kept"
"""A folder beside those of the workers, because Dask deletes these when a worker ends."""
_KEPT_SECONDS: Final = 30 * 24 * 3600
_LOOK_SECONDS: Final = 0.25
_GATHER_SECONDS: Final = 0.004
"""How long replies wait for others, to share a message with them. A message costs more processor time than this."""
_APPEAR_SECONDS: Final = 10.0
_ALIVE: Final = frozenset({"waiting", "ready", "constrained", "executing", "long-running"})
"""States of a task that its client still needs."""


def install(dask_worker: Any) -> None:
    """Install our message handler in a worker."""
    if OPERATION not in dask_worker.handlers:
        dask_worker.handlers[OPERATION] = _Handler(dask_worker).handle


def hold() -> None:
    """Occupy a worker for a run: a task that lasts as long, so that Dask sees that the worker is busy.

    It takes no thread of the worker.
    """
    worker = get_worker()
    key = worker.get_current_task()
    secede()
    while _is_wanted(worker, key):
        time.sleep(_LOOK_SECONDS)


class _Handler:
    """The runs with jobs on this worker."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._sessions: dict[str, _Session] = {}

    async def handle(self, do: str, run: str, **arguments: Any) -> Any:
        """Handle a message from the process of a run."""
        if do == "open":
            return await self._open(run, **arguments)
        if do == "collect":
            return await self._collect(run, **arguments)
        if do == "forget":
            return self._forget(run, **arguments)
        session = self._sessions.get(run)
        return None if session is None else await session.exchange(**arguments)

    async def _open(self, run: str, task: str, setup: bytes) -> str | None:
        """Open a session for a run. Return why that failed."""
        async with asyncio.timeout(_APPEAR_SECONDS):
            while not _is_wanted(self._worker, task):  # noqa: ASYNC110 - Dask has no event for it
                await asyncio.sleep(_LOOK_SECONDS / 10)  # the task arrives through another channel
        try:
            found: Setup = unpack(setup)
        except JobRefused as error:
            return str(error)
        _clear_old(_kept_folder(self._worker, run).parent)
        await self._end(run)  # the run has lost its connection
        session = self._sessions[run] = _Session(self._worker, task, _moved(found, self._worker, run))
        session.start(lambda: self._drop(run, session))
        return None

    async def _collect(self, run: str, tickets: Collection[str] | None = None) -> list[bytes]:
        """Return the kept results of some jobs, or of a run that is over. Ends that run's jobs first."""
        if tickets is None:
            await self._end(run)
        kept = KeptResults(_kept_folder(self._worker, run))
        found = kept.all() if tickets is None else filter(None, map(kept.find, tickets))
        return [json.dumps([each.ticket, each.result, each.answer]).encode() for each in found]

    def _drop(self, run: str, session: "_Session") -> None:
        if self._sessions.get(run) is session:
            del self._sessions[run]

    async def _end(self, run: str) -> None:
        session = self._sessions.pop(run, None)
        if session is not None:
            await session.close()

    def _forget(self, run: str, tickets: Collection[str]) -> None:
        kept = KeptResults(_kept_folder(self._worker, run))
        for ticket in tickets:
            kept.drop(ticket)
        kept.close()


class _Session:
    """The jobs of one run on this worker. Used on the worker's event loop."""

    def __init__(self, worker: Any, task: str, setup: Setup) -> None:
        self._worker = worker
        self._task = task
        self._processes = Processes(max(1, worker.state.nthreads), setup, os.environ, Path.cwd())
        self._processes.on_probe = self._probe
        self._askers: dict[str, WorkerProcess] = {}
        self._kept = KeptResults(setup.kept_folder)
        self._reader = FrameReader(self._take)
        self._jobs: dict[str, asyncio.Task[None]] = {}
        self._replies: list[bytes] = []
        self._arrived = asyncio.Event()
        self._is_over = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        setup.kept_folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def exchange(self, data: bytes, patience: float) -> bytes | None:
        """Take messages, and return queued ones, after some seconds at most. None: the session is over."""
        self._reader.feed(data)
        if patience and not self._replies:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), patience)
                await asyncio.sleep(_GATHER_SECONDS)
        found, self._replies = b"".join(self._replies), []
        self._arrived.clear()
        return found if found or not self._is_over.is_set() else None

    def start(self, on_end: Callable[[], object]) -> None:
        """Watch the session; `on_end` is called when it is closed."""
        self._watching = asyncio.ensure_future(self._watch())
        self._watching.add_done_callback(lambda _: on_end())

    async def _watch(self) -> None:
        """End all jobs when the run is over, its process is gone, or this worker ends."""
        while not self._is_over.is_set() and _is_wanted(self._worker, self._task):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_over.wait(), _LOOK_SECONDS)
        await self.close()

    async def close(self) -> None:
        """End all jobs and their processes. Return when they have ended."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self._processes.close()
        for task in self._jobs.values():
            task.cancel()
        self._kept.close()
        self._is_over.set()
        self._arrived.set()

    def _take(self, frame: Frame) -> None:
        if frame.word == "job":
            self._jobs[frame.ticket] = asyncio.ensure_future(self._run(frame.ticket, frame.body))
        elif frame.word == "cancel" and frame.ticket in self._jobs:
            self._jobs[frame.ticket].cancel()
        elif frame.word == "written":
            for ticket in frame.body.decode().split():
                self._kept.drop(ticket)
                self._processes.written(ticket)
        elif frame.word == PROBE:
            number, _, key = frame.ticket.partition(" ")
            self._askers[number].send(Frame(PROBE, key, frame.body))

    def _probe(self, asker: WorkerProcess, frame: Frame) -> None:
        number = str(id(asker))
        self._askers[number] = asker
        self._put(frame.replace(ticket=f"{number} {frame.ticket}"))

    def _put(self, frame: Frame) -> None:
        self._replies.append(frame.to_bytes())
        self._arrived.set()

    async def _run(self, ticket: str, parcel: bytes) -> None:
        try:
            frame = Frame("reply", ticket, await self._processes.relay(ticket, parcel))
        except WorkerLost as error:
            frame = self._lost(ticket, error)
        except asyncio.CancelledError:
            frame = Frame("reply", ticket, Reply().to_bytes())
        finally:
            self._jobs.pop(ticket, None)
        self._put(frame)

    def _lost(self, ticket: str, error: WorkerLost) -> Frame:
        kept = self._kept.find(ticket)
        if kept is None:
            return Frame("lost", ticket, str(error).encode())
        return Frame("reply", ticket, Reply(kept.result).to_bytes())  # the process died after it had kept this


def _is_wanted(worker: Any, task: str) -> bool:
    """Whether the client of a task still needs it, and the worker goes on. A dead client's tasks are released."""
    found = worker.state.tasks.get(task)
    return found is not None and found.state in _ALIVE and worker.status in (Status.running, Status.paused)


def _moved(setup: Setup, worker: Any, run: str) -> Setup:
    """Return a setup for processes on this machine, with modules of this environment and of the project."""
    ours = (folder for folder in setup.import_path if Path(folder).name not in ("site-packages", "dist-packages"))
    import_path = tuple(folder for folder in ours if setup.roots.spot(folder) is not None)
    return setup.replace(kept_folder=_kept_folder(worker, run), import_path=import_path, is_here=False)


def _clear_old(folder: Path) -> None:
    """Remove kept results of runs that were not resumed for a long time."""
    oldest = time.time() - _KEPT_SECONDS
    for run in folder.glob("*"):
        with suppress(OSError):
            if run.stat().st_mtime < oldest:
                shutil.rmtree(run)


def _kept_folder(worker: Any, run: str) -> Path:
    return Path(worker.local_directory).parent / _KEPT / run
