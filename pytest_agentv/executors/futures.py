"""Runs jobs on any `concurrent.futures.Executor` of a hook, perhaps on a cluster. Its workers see the run's files."""

import asyncio
import concurrent.futures
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from pytest_agentv.executors.base import Reply, Setup, WorkerLost
from pytest_agentv.executors.engine import WorkerEngine
from pytest_agentv.executors.leash import Leash, LeashEnd
from pytest_agentv.executors.shipping.packing import JobRefused, pack, unpack
from pytest_agentv.runtime.threads import run_in_thread

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
