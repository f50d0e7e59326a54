"""How many cases may be in flight in this process."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_agentv.models.base import Record

WORKER_NUMBER: Final = "agentv_worker"
"""Key of `workerinput`."""


@dataclass(frozen=True, slots=True)
class ProcessShare(Record):
    """This process among those of the run: with `-n 4` there are four."""

    index: int = 0
    count: int = 1

    def of(self, workers: int) -> int:
        """Return this process's share of a number of workers: all shares together make it up, each is at least 1."""
        return max(1, workers // self.count + (self.index < workers % self.count))


def process_share(config: pytest.Config) -> ProcessShare:
    """Return the share of this process; a worker's number was sent to it, since its id may be any text."""
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    if not worker:
        return ProcessShare()
    count = int(worker["workercount"])
    return ProcessShare(int(worker.get(WORKER_NUMBER, 0)) % count, count)


class WorkerNumbers:
    """Numbers the workers of a run from 0; one that replaces a dead worker gets its number, and so its share."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def take(self, worker_id: str) -> int:
        """Return the smallest number that no living worker has."""
        taken = self._taken.values()
        number = next(number for number in range(len(taken) + 1) if number not in taken)
        self._taken[worker_id] = number
        return number

    def free(self, worker_id: str) -> None:
        """Learn that a worker is gone."""
        self._taken.pop(worker_id, None)


def shared_folder(run_id: str) -> Path:
    """Return the folder, not made yet, in which the processes of a run tell each other what they found."""
    return Path(tempfile.gettempdir()) / f"agentv-{run_id}"


class FailureLimit:
    """Whether the run is about to stop at `-x`, `--maxfail` or `--stepwise`.

    pytest counts the failures that it has reported. A case that failed ahead of its turn counts as well, but only until
    its turn is over: pytest may see it in another way (xfail, reruns, hooks that change reports).
    """

    def __init__(self, config: pytest.Config) -> None:
        self.maximum = _max_failures(config)
        """0: any number may fail."""
        self._session: pytest.Session | None = None
        self._current = ""
        self._ahead: set[str] = set()
        """Node ids of cases that failed before their turn. Only the event loop adds, only pytest's thread removes."""

    def begin(self, item: pytest.Item) -> None:
        """Learn whose turn it is."""
        self._session, self._current = item.session, item.nodeid

    def end(self, item: pytest.Item) -> None:
        """Learn that an item's turn is over: pytest has counted its failure, if it is one."""
        self._current = ""
        self._ahead.discard(item.nodeid)

    def note(self, node_id: str | None) -> None:
        """Learn of a case that did not pass."""
        if self.maximum and node_id is not None and node_id != self._current:
            self._ahead.add(node_id)

    @property
    def is_reached(self) -> bool:
        reported = self._session.testsfailed if self._session is not None else 0
        return 0 < self.maximum <= reported + len(self._ahead)


def _max_failures(config: pytest.Config) -> int:
    if config.getoption("stepwise", default=False):
        return 2 if config.getoption("stepwise_skip", default=False) else 1
    return int(config.getoption("maxfail", default=0) or 0)
