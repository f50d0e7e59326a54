"""`dask://HOST:PORT`: runs jobs on the workers of a Dask cluster."""

import asyncio
import importlib.metadata
import logging
import warnings
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from typing import Any, Final

from distributed import Client, WorkerPlugin, get_client, get_worker

from pytest_agentv.errors import AgentvError
from pytest_agentv.executors.worker import Setup, WorkerLost, Workers, close_engine, run_job
from pytest_agentv.model.options import is_encrypted

_CONNECT_SECONDS: Final = 10.0
_WORKER_SECONDS: Final = 30.0
"""How long a run waits for the first worker."""
_SHOWN: Final = 5
_PACKAGE: Final = "pytest-agentv"


class ClusterError(AgentvError):
    """A cluster cannot run the cases. The text says where, why, and what to do."""


def open_cluster(address: str, setup: Setup) -> Workers:
    """Connect to a scheduler, and check its workers. Raises `ClusterError`."""
    client = _connect(address)
    try:
        slots = _check_workers(client, address)
        client.register_plugin(_Ending(setup.name), name=setup.name)
    except BaseException:
        client.close(timeout=_CONNECT_SECONDS)
        raise
    packed, tickets, loop = setup.to_bytes(), count(), client.loop.asyncio_loop

    def submit(job: bytes) -> "Future[bytes]":
        task = client.submit(run_marked, packed, setup.name, next(tickets), job, pure=False, retries=0)
        return asyncio.run_coroutine_threadsafe(_result(client, task), loop)

    def close() -> None:
        with suppress(Exception):  # the scheduler may be gone
            client.unregister_worker_plugin(setup.name)  # returns when the jobs have ended
            client.set_metadata(["agentv", setup.name], {})
        with suppress(Exception):
            client.close(timeout=_CONNECT_SECONDS)

    return Workers(address, slots, submit, close)


async def _result(client: Any, task: Any) -> bytes:
    """Return what a task replied. Dask's own executor would wait for ever for some results of lost workers."""
    try:
        reply: bytes = await client.gather(task, asynchronous=True)
    except asyncio.CancelledError:
        await task.cancel(asynchronous=True)
        raise
    except Exception:
        if task.status == "cancelled":
            raise asyncio.CancelledError from None
        raise
    return reply


def run_marked(setup: bytes, run: str, ticket: int, job: bytes) -> bytes:
    """Run a job on a worker, once: Dask runs the jobs of a lost worker again, and they may have been paid for.

    So a job leaves a mark with the scheduler when it starts. Raises `WorkerLost` if the mark is there.
    """
    client, worker = get_client(), get_worker()
    mark = ["agentv", run, str(ticket)]
    if client.get_metadata(mark, None) is not None:
        raise WorkerLost("its worker ended before it replied")
    client.set_metadata(mark, worker.address)
    key = worker.get_current_task()

    def is_wanted() -> bool:  # Dask releases the task when the client cancels it or ends
        task = worker.state.tasks.get(key)
        return task is not None and task.state not in ("cancelled", "released")

    return run_job(setup, job, is_wanted)


class _Ending(WorkerPlugin):  # type: ignore[misc]
    """Closes the targets of a run when it is over, or when a worker ends."""

    def __init__(self, run: str) -> None:
        self._run = run

    async def teardown(self, worker: Any) -> None:  # noqa: ARG002 - of the interface
        await asyncio.to_thread(close_engine, self._run)


def _connect(address: str) -> Any:
    url = f"{'tls' if is_encrypted(address) else 'tcp'}://{address.partition('://')[2]}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of versions; we check those that matter
            client = Client(url, timeout=_CONNECT_SECONDS, set_as_default=False, name="agentv")
    except Exception as error:  # noqa: BLE001 - Dask raises errors of the network and of OpenSSL
        raise ClusterError(_unreachable_text(address, error)) from None
    logger = logging.getLogger("distributed")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)  # it writes to the stderr that pytest captures
    logger.propagate = True
    return client


def _check_workers(client: Any, address: str) -> int:
    """Return the number of threads of all workers. Raises `ClusterError` if there is none, or one with other code."""
    try:
        client.wait_for_workers(1, timeout=_WORKER_SECONDS)
    except TimeoutError:
        url = address.partition("://")[2]
        raise ClusterError(f"{address}: the scheduler has no worker: start one with `dask worker {url}`") from None
    ours = importlib.metadata.version(_PACKAGE)
    found = client.run(importlib.metadata.version, _PACKAGE, on_error="return")
    others = {worker: "none" if isinstance(each, Exception) else each for worker, each in found.items() if each != ours}
    if others:
        faults = [f"  worker {worker} has {_PACKAGE} {each}, and this run {ours}" for worker, each in others.items()]
        text = "\n".join(f"{fault}: install {ours} there" for fault in faults[:_SHOWN])
        raise ClusterError(f"{address}: workers and this run must have the same versions\n{text}")
    threads: dict[str, int] = client.nthreads()
    return max(1, sum(threads.values()))


def _unreachable_text(address: str, error: Exception) -> str:
    if is_encrypted(address) and isinstance(error, (TypeError, RuntimeError, ValueError)):
        where = "set distributed.comm.tls.ca-file and distributed.comm.tls.client in Dask's configuration"
        return f"{address}: the connection cannot be encrypted: {error}; {where}"
    reason = str(error).partition("\n")[0] or type(error).__name__
    start = f"start one with `dask scheduler --port {address.rpartition(':')[2]}`"
    return f"{address}: no scheduler of Dask answered within {_CONNECT_SECONDS:.0f} s ({reason}); {start}"
