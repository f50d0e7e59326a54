"""`processes:N`: worker processes on this machine; and jobs on any `concurrent.futures.Executor` of a hook."""

import asyncio
import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from socket import socketpair
from typing import IO, Any, Final, TypeAlias

from pytest_agentv.executors.base import Frame, FrameReader, JobRefused, Reply, Setup, WorkerLost, pack, unpack
from pytest_agentv.executors.engine import PROBE, PROBED, WorkerEngine
from pytest_agentv.executors.kept import Leash, LeashEnd
from pytest_agentv.executors.worker import END_SECONDS
from pytest_agentv.runtime.user_code import run_in_thread

# `processes:N`: worker processes on this machine.

_PACKAGE_ROOT: Final = str(Path(__file__).parents[2])
_PROGRAM: Final = "import sys; sys.path.append(sys.argv[2]); from pytest_agentv.executors.worker import main; main()"
_GRACE_SECONDS: Final = END_SECONDS + 1
_SHOWN: Final = 500
"""The most characters of the last output of a lost worker."""


class Processes:
    """Sends each job to the worker with the fewest jobs. A lost worker is replaced when a job needs one."""

    def __init__(self, count: int, setup: Setup, environment: Mapping[str, str], cwd: Path | None = None) -> None:
        """Prepare the workers. `cwd` is their working directory; None: that of the run."""
        self.on_probe: OnProbe | None = None
        """Handles messages of workers about health checks."""
        self.name = f"processes:{count}"
        self.processes = count
        self._setup = pack(setup)
        self._cwd = cwd or setup.cwd
        self._environment = dict(environment)
        self._workers: list[WorkerProcess] = []
        self._past: list[WorkerProcess] = []
        self._had: dict[str, WorkerProcess] = {}
        """The last worker of each ticket."""

    async def ask(self, ticket: str, parcel: bytes) -> Reply:
        reply = Reply.from_bytes(await self.relay(ticket, parcel))
        if reply.refused is not None:
            raise JobRefused(reply.refused)
        return reply

    async def relay(self, ticket: str, parcel: bytes) -> bytes:
        """Send a packed `Parcel` to a worker. Return the bytes of a `Reply`. Raises `WorkerLost`."""
        worker = self._had.get(ticket)
        if worker is None or worker.is_lost:
            worker = self._had[ticket] = self._next_worker()
        await worker.connect()
        return await worker.relay(ticket, parcel)

    def written(self, ticket: str) -> None:
        """Forget a ticket. The run itself deletes the results that these workers keep."""
        self._had.pop(ticket, None)

    async def close(self) -> None:
        await asyncio.gather(*(worker.close() for worker in (*self._workers, *self._past)))

    def _next_worker(self) -> "WorkerProcess":
        self._past += [worker for worker in self._workers if worker.is_lost]
        self._workers = [worker for worker in self._workers if not worker.is_lost]
        least = min(self._workers, key=lambda worker: worker.busy, default=None)
        if least is not None and (least.busy == 0 or len(self._workers) == self.processes):
            return least
        worker = WorkerProcess(self._setup, self._cwd, self._environment, self.on_probe)
        self._workers.append(worker)
        return worker


class WorkerProcess(asyncio.Protocol):
    """A worker: its process, its socket, and its jobs.

    It uses callbacks instead of a task, because the run cancels all tasks of the loop at its end, but still waits for
    replies.
    """

    def __init__(self, setup: bytes, cwd: Path, environment: Mapping[str, str], on_probe: "OnProbe | None") -> None:
        self.is_lost = False
        self._on_probe = on_probe
        self._open: dict[str, asyncio.Future[bytes]] = {}
        self._arriving = 0
        self._is_ready = False
        """Whether it runs jobs. From then on, its stderr may hold output of targets, with secrets."""
        self._reader = FrameReader(self._take)
        self._transport: asyncio.BaseTransport | None = None
        self._connecting: asyncio.Future[Any] | None = None
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        ours, theirs = socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno()), _PACKAGE_ROOT],
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._socket = ours
        self._setup = setup

    @property
    def busy(self) -> int:
        return len(self._open) + self._arriving

    async def connect(self) -> None:
        """Connect once. A job that is cancelled meanwhile must not break the connection for others."""
        self._arriving += 1
        try:
            if self._connecting is None:
                self._socket.setblocking(False)
                connection = asyncio.get_running_loop().create_connection(lambda: self, sock=self._socket)
                self._connecting = asyncio.ensure_future(connection)
            await asyncio.shield(self._connecting)
        finally:
            self._arriving -= 1

    async def relay(self, ticket: str, parcel: bytes) -> bytes:
        if self.is_lost:
            raise WorkerLost(await self._last_words())
        replied = self._open[ticket] = asyncio.get_running_loop().create_future()
        self.send(Frame("job", ticket, parcel))
        try:
            return await asyncio.shield(replied)
        except asyncio.CancelledError:
            self.send(Frame("cancel", ticket))
            await asyncio.wait([replied], timeout=END_SECONDS)
            raise
        except WorkerLost:
            raise WorkerLost(await self._last_words()) from None
        finally:
            self._open.pop(ticket, None)
            if replied.done() and not replied.cancelled():
                replied.exception()  # retrieved even if the job was cancelled

    async def close(self) -> None:
        """Close the socket, so that the worker ends its jobs. Kill it if it does not end."""
        if self._transport is not None:
            self._transport.close()
        self._socket.close()
        await run_in_thread(self._end, "agentv-worker-end")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.send(Frame("setup", body=self._setup))

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        self.is_lost = True
        for replied in self._open.values():
            if not replied.done():
                replied.set_exception(WorkerLost())

    def _take(self, frame: Frame) -> None:
        self._is_ready = True
        if frame.word in (PROBE, PROBED):
            if self._on_probe is not None:
                self._on_probe(self, frame)
            return
        replied = self._open.get(frame.ticket)
        if replied is not None and not replied.done():
            replied.set_result(frame.body)

    def send(self, frame: Frame) -> None:
        if isinstance(self._transport, asyncio.WriteTransport) and not self._transport.is_closing():
            self._transport.write(frame.to_bytes())

    async def _last_words(self) -> str:
        """Return how the process ended, and why if it could not start."""
        code = await run_in_thread(self._wait, "agentv-worker-end")
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        ended = f"its process {self._process.pid} ended ({how})"
        if self._is_ready:
            return ended
        self._stderr.seek(0)
        printed = self._stderr.read().decode("utf-8", "replace").strip()[-_SHOWN:]
        return f"{ended} when it started{f': {printed}' if printed else ''}"

    def _wait(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(1)
        self._process.kill()  # it has closed its socket and sends no more
        return self._process.wait()

    def _end(self) -> None:
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.close()


OnProbe: TypeAlias = Callable[[WorkerProcess, Frame], None]


# Runs jobs on any `concurrent.futures.Executor` of a hook, perhaps on a cluster. Its workers see the run's files.

_LOOK_SECONDS: Final = 0.5
_END_SECONDS: Final = 8.0
_ORPHAN_SECONDS: Final = 2.0


class Futures:
    """Sends jobs to an executor. A broken executor is replaced by another one, if there is one."""

    def __init__(
        self,
        executor: concurrent.futures.Executor,
        setup: Setup,
        replace: Callable[[], concurrent.futures.Executor | None],
    ) -> None:
        self.name = type(executor).__name__
        self.processes = max(1, int(getattr(executor, "_max_workers", None) or 1))
        self._executor = executor
        self._replace = replace
        self._broken: set[int] = set()
        self._setup = pack(setup)
        self._leash = Leash(setup.kept_folder)

    async def ask(self, ticket: str, parcel: bytes) -> Reply:
        executor = self._executor
        try:
            future = executor.submit(run_job, self._setup, ticket, parcel)
        except RuntimeError as error:  # it is broken or was shut down, so it has not taken the job
            executor = self._executor = self._replacement(executor, error)
            future = executor.submit(run_job, self._setup, ticket, parcel)
        try:
            reply = Reply.from_bytes(await self._wait(future, ticket))
        except (Exception, KeyboardInterrupt, SystemExit) as error:  # the latter are what ended its worker
            raise WorkerLost(f"{type(error).__name__}: {error}".removesuffix(": ")) from error
        if reply.refused is not None:
            raise JobRefused(reply.refused)
        return reply

    def written(self, ticket: str) -> None:
        """Do nothing: the run itself deletes the results that these workers keep."""

    async def close(self) -> None:
        self._leash.release()
        self._executor.shutdown(wait=False, cancel_futures=True)
        await run_in_thread(self._shut_down, "agentv-executor-end")

    def _shut_down(self) -> None:
        ended = threading.Thread(target=self._executor.shutdown, name="agentv-executor-shutdown", daemon=True)
        ended.start()
        ended.join(_END_SECONDS)

    async def _wait(self, future: "Future[bytes]", ticket: str) -> bytes:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def wake(_: "Future[bytes]") -> None:
            with suppress(RuntimeError):  # the run is over, and nobody waits
                loop.call_soon_threadsafe(_settle, done)

        future.add_done_callback(wake)
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            if not future.cancel():
                self._leash.stop(ticket)
                await asyncio.wait([done], timeout=_END_SECONDS)
                self._leash.forget(ticket)
            raise
        return future.result()

    def _replacement(self, broken: concurrent.futures.Executor, error: RuntimeError) -> concurrent.futures.Executor:
        """Return the replacement for a broken executor. Raises `JobRefused`."""
        if self._executor is not broken:
            return self._executor  # another job has replaced it
        found = self._replace()
        if found is None or id(found) in self._broken or found is broken:
            raise WorkerLost(f"the executor takes no more cases: {error}") from error
        self._broken.add(id(broken))
        return found


def _settle(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)


def is_private(executor: concurrent.futures.Executor) -> bool:
    """Whether the connection to the workers is private: they are on this machine, or the executor says so."""
    known = (concurrent.futures.ProcessPoolExecutor, concurrent.futures.ThreadPoolExecutor)
    return isinstance(executor, known) or getattr(executor, "agentv_is_private", False) is True


def run_job(setup: bytes, ticket: str, parcel: bytes) -> bytes:
    """Run a job in a worker. Return the bytes of a `Reply`. Blocks until the job has ended."""
    try:
        engine = _ENGINES.get(setup)
    except JobRefused as error:
        return Reply(refused=str(error)).to_bytes()
    return engine.run(ticket, parcel)


class _LeashedEngine:
    """The engine of a run in a foreign worker, with a thread that watches the leash."""

    def __init__(self, setup: Setup) -> None:
        is_seen = setup.is_seen()
        self.is_closed = False
        self._engine = WorkerEngine(setup.replace(keeps=is_seen))
        self._end = LeashEnd(setup.kept_folder)
        self._running: dict[str, Future[bytes]] = {}
        self._parent = os.getppid()
        if is_seen:
            threading.Thread(target=self._look, name="agentv-leash", daemon=True).start()

    def run(self, ticket: str, parcel: bytes) -> bytes:
        future = self._running[ticket] = self._engine.start(ticket, parcel)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            return Reply().to_bytes()
        finally:
            self._running.pop(ticket, None)

    def _look(self) -> None:
        pause = threading.Event()
        while not self._end.is_cut():
            for ticket in list(self._running):
                if self._end.is_stopped(ticket):
                    self._engine.cancel(ticket)
            pause.wait(_LOOK_SECONDS)
        self.is_closed = True
        self._engine.close()
        self._end_orphan()

    def _end_orphan(self) -> None:
        """End this process if it belongs to the pool of a killed run. Otherwise it would wait for jobs for ever."""
        parent = multiprocessing.parent_process()
        until = time.monotonic() + _ORPHAN_SECONDS
        while parent is not None and time.monotonic() < until:
            if not parent.is_alive() or (self._parent == parent.pid and os.getppid() != parent.pid):
                os._exit(os.EX_UNAVAILABLE)
            time.sleep(_LOOK_SECONDS)


class _Engines:
    """The engines of this process, one per run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[bytes, _LeashedEngine] = {}

    def get(self, setup: bytes) -> _LeashedEngine:
        with self._lock:
            engine = self._known.get(setup)
            if engine is None or engine.is_closed:
                engine = self._known[setup] = _LeashedEngine(unpack(setup))
            return engine


_ENGINES: Final = _Engines()
