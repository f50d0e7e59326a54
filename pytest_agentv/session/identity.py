"""What names a run, the same in all its processes."""

import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_agentv.models.base import Record
from pytest_agentv.models.options import DEFAULT_RESULTS_FOLDER, RunOptions
from pytest_agentv.reporting.writers import default_results_path
from pytest_agentv.session.last_run import JournalSource, broken_cases, find_last_run
from pytest_agentv.session.limits import WORKER_NUMBER

_WORKER_INPUT: Final = "agentv"


@dataclass(frozen=True, slots=True)
class RunIdentity(Record):
    """A run and the file its results go to."""

    run_id: str
    results_path: Path
    """Absolute."""
    resumed: JournalSource | None = None
    """The run whose finished cases are carried over."""
    retried: tuple[tuple[str, str], ...] | None = None
    """Eval file and id of the cases that are run, and no others; None: all are."""

    @property
    def crash_mark(self) -> Path:
        """A file that is there, and touched anew, when a worker of the run has died."""
        return self.results_path.with_name(f".{self.results_path.name}.crashed")


def run_identity(config: pytest.Config, options: RunOptions) -> RunIdentity:
    """Return the identity that xdist's controller sent to this worker, or a new one.

    A resumed run goes on in the same file under the same run id, unless its results are to go to another file.
    Raises `pytest.UsageError` when there is no run to resume.
    """
    sent = getattr(config, "workerinput", {}).get(_WORKER_INPUT)
    if sent is not None:
        return RunIdentity.from_plain(json.loads(sent))
    cwd = config.invocation_params.dir
    resumed = retried = None
    if options.resume is not None or options.retry_errors:
        flag = "--agentv-retry-errors" if options.resume is None else "--agentv-resume"
        resumed = find_last_run(options.resume or cwd / DEFAULT_RESULTS_FOLDER, flag)
        retried = broken_cases(resumed) if options.resume is None else None
        if options.out is None or options.out.absolute() == resumed.path.absolute():
            return RunIdentity(resumed.run_id, resumed.path.absolute(), resumed, retried)
    started = datetime.now(UTC)
    path = options.out or default_results_path(cwd, started, options.output_format)
    return RunIdentity(f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}", path.absolute(), resumed, retried)


def send_to_worker(identity: RunIdentity, number: int, node: Any) -> None:
    """Hand the identity and the worker's number to an xdist worker, as plain values that execnet can carry."""
    node.workerinput[WORKER_NUMBER] = number
    node.workerinput[_WORKER_INPUT] = json.dumps(identity.to_plain())
    node.workerinput["agentv_dist"] = str(node.config.getoption("dist"))
