"""Connects to a Dask cluster, and checks the requirements of a run before it sends anything."""

import asyncio
import importlib.metadata
import json
import logging
import platform
import time
import warnings
from collections.abc import Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from distributed import Client

from pytest_agentv.errors import AgentvError
from pytest_agentv.executors.dask_remote import OPERATION, install
from pytest_agentv.executors.kept import KeptResult
from pytest_agentv.model.base import Record
from pytest_agentv.model.options import is_encrypted

T = TypeVar("T")

CONNECT_SECONDS: Final = 10.0
_WORKER_SECONDS: Final = 30.0
"""How long a run waits for the first worker."""
_ANSWER_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.1
_SHOWN: Final = 5
_PACKAGE: Final = "pytest-agentv"


class ClusterError(AgentvError):
    """A cluster cannot run the cases. The text says where, why, and what to do."""


@dataclass(frozen=True, slots=True)
class WorkerInfo(Record):
    """A worker of the cluster that takes jobs."""

    address: str
    name: str
    host: str
    threads: int

    def __str__(self) -> str:
        return self.address if self.name == self.address else f"{self.name} ({self.address})"


class Cluster:
    """The connection to a cluster. `submit` starts its coroutines in the thread of Dask's client."""

    def __init__(self, address: str) -> None:
        """Connect. Raises `ClusterError` if the scheduler does not answer in time."""
        self.address = address
        self._prepared: set[str] = set()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of versions; we check those that matter
                self.client = Client(_url(address), timeout=CONNECT_SECONDS, set_as_default=False, name="agentv")
        except Exception as error:  # noqa: BLE001 - Dask raises errors of the network and of OpenSSL
            raise ClusterError(_unreachable_text(address, error)) from None
        logger = logging.getLogger("distributed")
        for handler in logger.handlers:
            logger.removeHandler(handler)  # it writes to the stderr that pytest captures
        logger.propagate = True

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start a coroutine in the client's thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.client.loop.asyncio_loop)

    def call(self, function: Any, *arguments: Any) -> None:
        """Call a function in the client's thread soon. Does nothing after `close`."""
        with suppress(RuntimeError):
            self.client.loop.asyncio_loop.call_soon_threadsafe(function, *arguments)

    async def tell(self, worker: str, **message: Any) -> Any:
        """Send one of our messages to a worker, and return its reply."""
        scheduler: Any = self.client.scheduler
        replies = await scheduler.broadcast(msg={"op": OPERATION, **message}, workers=[worker])
        return replies[worker]

    async def collect(self, worker: str, run: str, tickets: Collection[str] | None = None) -> list[KeptResult]:
        """Return the kept results of some jobs, or of a run that is over, whose jobs the worker ends first.

        Raises Dask's errors if the worker cannot be reached.
        """
        found = await self.tell(worker, do="collect", run=run, tickets=tickets)
        return [KeptResult(*json.loads(data)) for data in found]

    async def workers(self) -> list[WorkerInfo]:
        """Return the workers that take jobs now. Raises `OSError` if the scheduler is gone."""
        scheduler: Any = self.client.scheduler
        found = await asyncio.wait_for(scheduler.identity(), _ANSWER_SECONDS)
        return [
            WorkerInfo(address, str(each.get("name", address)), str(each["host"]), int(each["nthreads"]))
            for address, each in found["workers"].items()
            if each.get("status", "running") == "running"
        ]

    async def remaining_workers(self) -> list[WorkerInfo]:
        """Return the workers that take jobs after the loss of one. Raises `ClusterError` if the scheduler was lost."""
        asking = asyncio.ensure_future(self.workers())
        while not asking.done() and not self._is_cut:
            await asyncio.wait([asking], timeout=_LOOK_SECONDS)
        if asking.done() and asking.exception() is None:
            return asking.result()
        asking.cancel()
        raise ClusterError(f"the scheduler {self.address} is gone: the cases that it had did not end")

    @property
    def _is_cut(self) -> bool:
        """Whether the connection to the scheduler has ended. Workers then end their jobs for it."""
        comm: Any = self.client.scheduler_comm
        return comm is None or bool(comm.closed())

    async def prepare(self, workers: Sequence[WorkerInfo]) -> None:
        """Install our message handler on workers. Raises `ClusterError` for one with other code than this process."""
        workers = [worker for worker in workers if worker.address not in self._prepared]
        addresses = [worker.address for worker in workers]
        if not addresses:
            return
        run: Any = self.client.run
        pythons = await run(platform.python_version, workers=addresses, on_error="return")
        packages = await run(importlib.metadata.version, _PACKAGE, workers=addresses, on_error="return")
        faults = [fault for worker in workers for fault in _faults(worker, pythons, packages)]
        if faults:
            more = f"\nand {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
            text = "\n".join(faults[:_SHOWN]) + more
            raise ClusterError(f"{self.address}: workers and this run must have the same versions\n{text}")
        await run(install, workers=addresses)
        self._prepared.update(addresses)

    async def allowed_failures(self) -> int:
        """Return how often Dask may repeat a task after the loss of its worker."""
        run: Any = self.client.run_on_scheduler
        return int(await run(lambda dask_scheduler: dask_scheduler.allowed_failures))

    def close(self) -> None:
        """Close the connection. Workers end their jobs for it."""
        with suppress(Exception):
            self.client.close(timeout=_ANSWER_SECONDS)


def connect(address: str) -> tuple[Cluster, list[WorkerInfo]]:
    """Return a checked cluster with its workers. Raises `ClusterError`."""
    cluster = Cluster(address)
    try:
        workers = _first_workers(cluster)
        cluster.submit(_check(cluster, workers)).result()
    except BaseException:
        cluster.close()
        raise
    return cluster, workers


async def _check(cluster: Cluster, workers: Sequence[WorkerInfo]) -> None:
    await cluster.prepare(workers)
    allowed = await cluster.allowed_failures()
    if allowed:
        raise ClusterError(
            f"{cluster.address}: Dask may repeat what a lost worker ran, up to {allowed} times, and each time may be "
            "paid for: start the scheduler with DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=0"
        )


def _first_workers(cluster: Cluster) -> list[WorkerInfo]:
    deadline = time.monotonic() + _WORKER_SECONDS
    while not (workers := cluster.submit(cluster.workers()).result()):
        if time.monotonic() > deadline:
            started = f"dask worker {_url(cluster.address)}"
            raise ClusterError(f"{cluster.address}: the scheduler has no worker: start one with `{started}`")
        time.sleep(_LOOK_SECONDS)
    return workers


def _faults(worker: WorkerInfo, pythons: Mapping[str, Any], packages: Mapping[str, Any]) -> list[str]:
    """Return the differences between a worker and this process."""
    python, package = pythons.get(worker.address), packages.get(worker.address)
    ours = importlib.metadata.version(_PACKAGE)
    if isinstance(package, importlib.metadata.PackageNotFoundError):
        return [f"  worker {worker} has no {_PACKAGE}: install {_PACKAGE}=={ours} in its environment"]
    faults = []
    if package != ours:
        faults.append(f"  worker {worker} has {_PACKAGE} {package}, and this run {ours}: install {ours} there")
    if _minor(str(python)) != _minor(platform.python_version()):
        faults.append(f"  worker {worker} has Python {python}, and this run {platform.python_version()}")
    return faults


def _minor(version: str) -> tuple[str, ...]:
    return tuple(version.split(".")[:2])


def _url(address: str) -> str:
    """Return an address in Dask's form."""
    place = address.partition("://")[2]
    return f"{'tls' if is_encrypted(address) else 'tcp'}://{place}"


def _unreachable_text(address: str, error: Exception) -> str:
    if is_encrypted(address) and isinstance(error, (TypeError, RuntimeError, ValueError)):
        where = "set distributed.comm.tls.ca-file and distributed.comm.tls.client in Dask's configuration"
        return f"{address}: the connection cannot be encrypted: {error}; {where}"
    reason = str(error).partition("\n")[0] or type(error).__name__
    port = address.rpartition(":")[2]
    return (
        f"{address}: no scheduler of Dask answered within {CONNECT_SECONDS:.0f} s ({reason}); start one with "
        f"`dask scheduler --port {port}`"
    )
