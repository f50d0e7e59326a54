"""Divides the cases in flight among the processes of a run."""

import tempfile
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record

AHEAD: Final = 2
"""Cases that are begun ahead, or queued at a worker, for each place in flight, so that no place stays free."""
WORKER_NUMBER: Final = "agentv_worker"
"""Key of `workerinput`."""
PLACES: Final = "agentv_places"
"""Attribute of reports: how many cases the worker may have in flight, if that has changed."""


@record
class ProcessShare(Record):
    """This process among those of the run: with `-n 4`, there are four."""

    index: int = 0
    count: int = 1

    def of(self, workers: int) -> int:
        """Return this process's share of a number of workers.

        The shares add up to that number, but each is at least 1.
        """
        return max(1, workers // self.count + (self.index < workers % self.count))


def process_share(config: pytest.Config) -> ProcessShare:
    """Return the share of this process. The controller sent its number, because a worker's id may be any text."""
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    if not worker:
        return ProcessShare()
    count = int(worker["workercount"])
    return ProcessShare(int(worker.get(WORKER_NUMBER, 0)) % count, count)


class WorkerNumbers:
    """Numbers the workers of a run from 0. A replacement gets the number, and so the share, of the dead worker."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def take(self, worker_id: str) -> int:
        """Return the smallest number that no living worker has."""
        taken = self._taken.values()
        number = next(number for number in range(len(taken) + 1) if number not in taken)
        self._taken[worker_id] = number
        return number

    def free(self, worker_id: str) -> None:
        """Note that a worker is gone."""
        self._taken.pop(worker_id, None)


def shared_folder(run_id: str) -> Path:
    """Return the folder in which the processes of a run share findings. It may not exist yet."""
    return Path(tempfile.gettempdir()) / f"agentv-{run_id}"
