"""How many cases may be in flight in this process."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.models.base import Record


@dataclass(frozen=True, slots=True)
class ProcessShare(Record):
    """This process among those of the run: with `-n 4` there are four."""

    index: int = 0
    count: int = 1

    def of(self, workers: int) -> int:
        """Return this process's share of a number of workers: all shares together make it up, each is at least 1."""
        return max(1, workers // self.count + (self.index < workers % self.count))


def process_share(config: pytest.Config) -> ProcessShare:
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    if not worker:
        return ProcessShare()
    count = int(worker["workercount"])
    # A worker that replaces a crashed one gets a number of its own and the share of the one it stands for.
    return ProcessShare(int(str(worker["workerid"]).removeprefix("gw")) % count, count)


def shared_folder(run_id: str) -> Path:
    """Return the folder, not made yet, in which the processes of a run tell each other what they found."""
    return Path(tempfile.gettempdir()) / f"agentv-{run_id}"


def max_failures(config: pytest.Config) -> int:
    """Return the number of failures that ends the run (`-x`, `--maxfail`, `--stepwise`); 0: none does."""
    if config.getoption("stepwise", default=False):
        return 2 if config.getoption("stepwise_skip", default=False) else 1
    return int(config.getoption("maxfail", default=0) or 0)
