"""What names a run, the same in all its processes."""

import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_agentv.models.base import Record
from pytest_agentv.models.options import RunOptions
from pytest_agentv.reporting.writers import default_results_path

_WORKER_INPUT: Final = "agentv"


@dataclass(frozen=True, slots=True)
class RunIdentity(Record):
    """A run and the file its results go to."""

    run_id: str
    results_path: Path
    """Absolute."""


def run_identity(config: pytest.Config, options: RunOptions) -> RunIdentity:
    """Return the identity that xdist's controller sent to this worker, or a new one."""
    sent = getattr(config, "workerinput", {}).get(_WORKER_INPUT)
    if sent is not None:
        values = json.loads(sent)
        return RunIdentity(values["run_id"], Path(values["results_path"]))
    started = datetime.now(UTC)
    path = options.out or default_results_path(config.invocation_params.dir, started, options.output_format)
    return RunIdentity(f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}", path.absolute())


def send_to_worker(identity: RunIdentity, node: Any) -> None:
    """Hand the identity to an xdist worker, as the plain text that execnet can carry."""
    values = {"run_id": identity.run_id, "results_path": str(identity.results_path)}
    node.workerinput[_WORKER_INPUT] = json.dumps(values)
    node.workerinput["agentv_dist"] = str(node.config.getoption("dist"))
