"""Results that the workers of a cluster keep until the results file has them, also of a run that was killed."""

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_agentv.errors import locate
from pytest_agentv.executors.dask.client import Cluster, ClusterError, WorkerInfo, connect
from pytest_agentv.executors.kept import KeptResult, KeptResults
from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.runtime.files import write_atomically

_NAME: Final = "clusters"


@record
class LeftRun(Record):
    """A run on a cluster whose workers may keep results of it."""

    address: str
    run: str


class LeftRuns:
    """The runs of a results file that did not end as they should: a file beside what else is kept of them."""

    def __init__(self, kept_folder: Path) -> None:
        self._path = kept_folder / _NAME

    @property
    def path(self) -> Path:
        return self._path

    def all(self) -> list[LeftRun]:
        try:
            lines = self._path.read_text("utf-8").splitlines()
        except OSError:
            return []
        return list(_parsed(lines))

    def add(self, left: LeftRun) -> None:
        """Note a run before its first job. Raises `FileError`."""
        self._write([*self.all(), left])

    def remove(self, runs: Collection[str]) -> None:
        """Forget runs of which no worker keeps anything."""
        with suppress(OSError):
            self._write([left for left in self.all() if left.run not in runs])

    def _write(self, lefts: list[LeftRun]) -> None:
        if lefts:
            write_atomically(self._path, "".join(json.dumps(left.to_plain()) + "\n" for left in lefts))
        else:
            self._path.unlink(missing_ok=True)


def _parsed(lines: list[str]) -> Iterator[LeftRun]:
    for line in lines:
        with suppress(ValueError, TypeError):
            yield LeftRun(**json.loads(line))


async def fetch(
    cluster: Cluster, workers: Collection[WorkerInfo], run: str, tickets: Collection[str] | None = None
) -> dict[str, KeptResult]:
    """Return what workers keep of some jobs, or of a whole run, which they end first. One that is gone is left out."""
    found: dict[str, KeptResult] = {}
    for worker in workers:
        with suppress(OSError):
            await cluster.prepare([worker])
            for data in await cluster.tell(worker.address, do="collect", run=run, tickets=tickets):
                kept = KeptResult(**json.loads(data))
                found[kept.ticket] = kept
    return found


def bring_home(kept_folder: Path, address: str | None) -> None:
    """Fetch what workers keep of runs that were killed, to where the run that goes on looks for it.

    `address` is the cluster of the run that goes on; None: that of the run that was killed.
    Raises `ClusterError` if the cluster cannot be reached: what it keeps was paid for.
    """
    lefts = LeftRuns(kept_folder)
    for left in lefts.all():
        try:
            cluster, workers = connect(address or left.address)
        except ClusterError as error:
            where = locate(lefts.path, None)
            text = f"{error}\nIts workers may keep results that were paid for. To do without them, delete {where}"
            raise ClusterError(text) from None
        try:
            cluster.submit(_bring(cluster, workers, left.run, KeptResults(kept_folder))).result()
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
