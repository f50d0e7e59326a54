"""Collects the results that a worker keeps."""

import json
from collections.abc import Collection

from pytest_agentv.executors.dask.client import Cluster
from pytest_agentv.executors.kept import KeptResult


async def collect(cluster: Cluster, worker: str, run: str, tickets: Collection[str] | None = None) -> list[KeptResult]:
    """Return the kept results of some jobs, or of a run that is over. Ends that run's jobs first.

    Raises Dask's errors if the worker cannot be reached.
    """
    found = await cluster.tell(worker, do="collect", run=run, tickets=tickets)
    return [KeptResult(*json.loads(data)) for data in found]
