"""Fetches the results that the workers of a cluster keep until the results file has them, also of a killed run."""

from collections.abc import Collection
from contextlib import suppress

from pytest_agentv.errors import locate
from pytest_agentv.executors.dask.client import Cluster, ClusterError, WorkerInfo, connect
from pytest_agentv.executors.kept import KeptResult, KeptResults
from pytest_agentv.executors.left_runs import LeftRuns


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
