"""The messages between the process of the run and its workers."""

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
    """A worker ended, or its executor broke, before it replied to a job."""


class ExecutorLost(WorkerLost):
    """No worker can be reached any more, so the run must end."""


@record
class Setup(Record):
    """The facts that a worker needs about a run. Its only secret is `passed`: a worker has its own `.env`.

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
    """The levels of loggers by name. The root logger has an empty name."""
    roots: Roots = NO_ROOTS
    """The folders that paths in jobs are relative to."""
    ships: bool = False
    """Whether workers get the files of the cases; False: they have them, in the same folders or elsewhere."""
    process: str = ""
    """The process of the run, by `process_name`. It has the files."""
    is_here: bool = True
    """Whether the worker has the interpreter and the packages of the run."""
    python: str = sys.executable
    """The interpreter of the run, which records name."""
    keeps: bool = True
    """Whether the worker keeps results until the run has written them."""
    unjudged: UnjudgedFolders | None = None
    """Where answers are kept until they are judged."""
    results: Path | None = None
    """The results file. If it exists and the folder of kept results does not, the run is over."""
    own_providers: tuple[str, ...] = ()
    """The names of the project's kinds of targets.

    Workers know only the names: cases that need these kinds stay at home.
    """
    passed: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables of `--agentv-pass-env`, which are secrets."""

    def is_seen(self) -> bool:
        """Whether this machine sees the folder of the run's results.

        On another machine, nobody looks for a kept result.
        """
        return self.kept_folder.is_dir() or (self.results is not None and self.results.exists())


@record
class Reply(Record):
    """The reply of a worker to a job, with secrets masked."""

    result: JsonObject | None = None
    """The keys of the result; None: the job was cancelled or refused."""
    refused: str | None = None
    """Why the job did not start, so that the process of the run must run it."""
    missing: tuple[str, ...] = ()
    """The digests of bundles that the worker lacks, so that the job did not start."""
    worker: str = ""
    """The name of the worker."""
    fault: str | None = None
    """Why no such worker can start the job."""
    log: tuple[str, ...] = ()
    """The lines that the case logged."""
    printed: Mapping[str, str] = field(default_factory=dict)
    """What the case printed, by the name of the stream."""
    warnings: tuple[JsonObject, ...] = ()
    """The keys of `Problem`s that the worker found."""
    stop_reason: str | None = None
    """Why the whole run must end: a target is unhealthy."""
    files: tuple[SentFile, ...] = ()
    """The files that cases have written for the run, if the worker does not see its folders."""

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
        """The name on the terminal."""

    @property
    def processes(self) -> int:
        """How many processes run cases: as many cases at a time, unless the run or a target sets a limit.

        A process runs 50 cases at a time at most.
        """

    async def ask(self, ticket: str, parcel: bytes) -> Reply:
        """Send a packed `Parcel` to a worker. A cancelled call returns when the job has ended.

        If the executor can choose, all messages under one ticket go to the same worker: the job, missing files, and the
        job again. Raises `WorkerLost` or `JobRefused`.
        """

    def written(self, ticket: str) -> None:
        """Note that the results file holds a result. A worker that keeps it on another machine then drops it."""

    async def close(self) -> None:
        """End all jobs and their processes."""
