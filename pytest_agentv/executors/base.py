"""What travels between the process that owns the run and those that run its cases."""

import json
import sys
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Protocol

from pytest_agentv.engine.targets.folders import UnjudgedFolders
from pytest_agentv.errors import AgentvError
from pytest_agentv.executors.shipping.outgoing import SentFile
from pytest_agentv.executors.shipping.packing import NO_ROOTS
from pytest_agentv.executors.shipping.roots import Roots
from pytest_agentv.models.base import Json, JsonObject, Record
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.records import record


class WorkerLost(AgentvError):
    """A worker ended, or its executor broke, before it gave the result of a job."""


class ExecutorLost(WorkerLost):
    """No worker can be reached any more, so the run has to end."""


@record
class Setup(Record):
    """What a worker has to know of a run. It holds no secret but `passed`: a worker has its own environment and `.env`.

    All paths are those of the process of the run.
    """

    options: RunOptions
    repo_root: Path
    cwd: Path
    shared_folder: Path
    """Where the processes of the run share health checks and warnings."""
    kept_folder: Path
    """Where results are kept until the run has written them."""
    import_path: tuple[str, ...] = ()
    """The folders that the process of the run imports modules from."""
    log_levels: dict[str, int] = field(default_factory=dict)
    """The levels of loggers by name; the root logger has an empty name."""
    roots: Roots = NO_ROOTS
    """The folders that paths in jobs are relative to."""
    ships: bool = False
    """Whether workers get the files of the cases; False: they find them in the same folders, or in their own."""
    process: str = ""
    """The process of the run, as `process_name` tells it: the files are there."""
    is_here: bool = True
    """Whether the worker has the interpreter and the packages of the run."""
    python: str = sys.executable
    """The interpreter of the run, which records name."""
    keeps: bool = True
    """Whether the worker keeps results until the run has written them."""
    unjudged: UnjudgedFolders | None = None
    """Where answers are kept until they are judged."""
    results: Path | None = None
    """The results file: where it is, and the folder of kept results is not, the run is over."""
    own_providers: tuple[str, ...] = ()
    """The kinds of targets that the project adds. Workers know their words only: what needs them runs with the run."""
    passed: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables of `--agentv-pass-env`, which are secrets."""

    def is_seen(self) -> bool:
        """Whether this machine sees the folder of the run's results. On another machine nobody looks for a kept one."""
        return self.kept_folder.is_dir() or (self.results is not None and self.results.exists())


@record
class Reply(Record):
    """What a worker says of a job: its secrets are masked."""

    result: JsonObject | None = None
    """The keys of the result; None: the job was cancelled or refused."""
    refused: str | None = None
    """Why the job did not start, so that the process of the run has to run it."""
    missing: tuple[str, ...] = ()
    """The digests of bundles that the worker lacks. The job did not start."""
    worker: str = ""
    """Which worker says so."""
    fault: str | None = None
    """Why no worker of this sort can start the job."""
    log: tuple[str, ...] = ()
    """The lines that the case logged."""
    warnings: tuple[JsonObject, ...] = ()
    """The keys of `Problem`s that were found."""
    stop_reason: str | None = None
    """Why the whole run is to end: a target is not well."""
    files: tuple[SentFile, ...] = ()
    """What cases have written for the run where its folders are not seen."""

    def to_bytes(self) -> bytes:
        return json.dumps(self.to_plain(), ensure_ascii=True).encode()

    @staticmethod
    def from_bytes(data: bytes) -> "Reply":
        values: dict[str, Json] = json.loads(data)
        lists = {name: tuple(values.get(name, ())) for name in ("missing", "log", "warnings")}
        files = tuple(SentFile(**each) for each in values.get("files", ()))
        return Reply(**{**values, **lists, "files": files})


class CaseExecutor(Protocol):
    """Runs jobs elsewhere. Used on the run's event loop."""

    @property
    def name(self) -> str:
        """How the terminal calls it."""

    @property
    def processes(self) -> int:
        """How many processes run cases: as many at once unless the run or a target says so, and 50 each at most."""

    async def ask(self, ticket: str, parcel: bytes) -> Reply:
        """Hand a packed `Parcel` to a worker. A cancelled call returns when the job has ended.

        What comes under a ticket that was there before goes to the same worker, where the executor can choose: the
        files that it lacks, and then the job again. Raises `WorkerLost` or `JobRefused`.
        """

    def written(self, ticket: str) -> None:
        """Learn that the results file has a result. A worker that keeps it on another machine then forgets it."""

    async def close(self) -> None:
        """End all jobs and the processes that they started."""
