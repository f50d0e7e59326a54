"""The identity of a run, the same in all its processes, and the results file that it resumes."""

import json
import os
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_agentv.errors import AgentvError, locate
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import Record, counted
from pytest_agentv.model.options import DEFAULT_RESULTS_FOLDER, RunOptions
from pytest_agentv.runtime.files import flocked
from pytest_agentv.session.compat import named_arguments
from pytest_agentv.session.options import run_options
from pytest_agentv.store.readers import iter_recorded
from pytest_agentv.store.writers import default_results_path, stored_name

# Finds the results file that a run resumes.

RESUME: Final = "--agentv-resume"
REJUDGE: Final = "--agentv-rejudge"
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class ResumedFile(Record):
    """A results file whose finished cases are carried over, from all its runs."""

    path: Path
    """Absolute."""
    run_id: str
    """The id of the last run in the file."""
    last_line: int = 0
    """The last line before this run appends its own."""
    files: tuple[str, ...] = ()
    """The files of its results, by their names in node ids."""
    broken: tuple[tuple[str, str], ...] = ()
    """Eval file and id of the cases that ended as errors."""
    broken_items: tuple[str, ...] = ()
    """Node ids of the items with such a case, or with an evaluation that ended as an error."""
    unbroken: tuple[str, ...] = ()
    """Node ids of items that did not break, although their file and id are in `broken`: other targets of a matrix."""
    hidden: tuple[tuple[str, str, str], ...] = ()
    """Node id, id and target of the results that must not stand for the error of another target of the same case, if
    this run does not ask the case."""
    remarks: tuple[str, ...] = ()
    """Warnings about the file: skipped lines, results that are too old."""
    is_dry: bool | None = False
    """Whether its last result is mocked; None: it is empty."""

    def mixing_fault(self, *, dry_run: bool) -> str | None:
        """Return why a run must not write to the file: mocked results and real ones must not be mixed."""
        if self.is_dry in {dry_run, None}:
            return None
        held, other = ("of a dry run", "a run with calls") if self.is_dry else ("of calls", "a dry run")
        return f"{locate(self.path, None)} holds results {held}, with which {other} cannot go on"

    def foreign_fault(self, collected: set[str], root: Path) -> str | None:
        """Return why the file seems to belong to another project: none of its results is from a collected file."""
        if not collected or not all(collected):  # outside of the root directory, node ids may have no file name
            return None
        known = {os.path.normpath(root / name) for name in self.files}
        names = {os.path.normpath(root / stored_name(name)) for name in collected}
        if not known or known & names:  # only answers have no names
            return None
        held, others = (", ".join(sorted(files)[:_SHOWN]) for files in (self.files, collected))
        text = f"{locate(self.path, None)} holds results of {held}, and none of what was collected: {others}"
        return f"{text}; is it the file of another project?"


def find_last_run(path: Path, flag: str, *, dry_run: bool = False) -> ResumedFile:
    """Return a results file, or the newest results file of a folder, to resume.

    In a folder, dry runs and real runs see only files of their own kind. Otherwise a dry run in between would make the
    next run pay for all answers again. A case broke if its last result with any target is an error.

    Raises `pytest.UsageError` that names `flag` if there is no file.
    """
    file = _newest_file(path, dry_run=dry_run) if path.is_dir() else path
    if file is None or not file.is_file():
        raise pytest.UsageError(f"{flag}: {locate(path, None)} holds no results file to go on from")
    try:
        return _read(file, flag)
    except AgentvError as error:
        raise pytest.UsageError(f"{flag}: {error}") from None


def _read(file: Path, flag: str) -> ResumedFile:
    remarks: list[str] = []
    statuses: dict[tuple[str, str, str], dict[str, str]] = {}
    """By eval file, id and node id: the last status with each target."""
    run_id: str | None = None
    is_dry: bool | None = False
    last_line = unsigned = 0
    for entry in iter_recorded(file):
        last_line = entry.line or last_line
        if isinstance(entry, Problem):
            remarks.append(str(entry))
        elif (result := entry.result).run_id is not None:
            run_id, is_dry = result.run_id or run_id, result.dry_run is True
            item = result.eval_file or "", result.eval_id, result.node_id or ""
            statuses.setdefault(item, {})[result.target] = result.status
            unsigned += result.status != "error" and (result.target_hash is None or result.grading_hash is None)
    if run_id is None and flag == RESUME and not file.stat().st_size:  # its run was killed before its first result
        run_id, is_dry = new_run_id(datetime.now(UTC)), None
    if run_id is None:
        text = f"{flag}: {locate(file, None)} holds no results of a run of pytest-agentv"
        raise pytest.UsageError("; ".join([text, *remarks[:1]]))
    if unsigned:
        results = counted(unsigned, "result does", "results do")
        remarks.append(
            f"{locate(file, None)}: {results} not tell with which target and evaluators it came about (no target_hash, "
            "no grading_hash): such cases are run again"
        )
    broken = {item: known for item, known in statuses.items() if "error" in known.values()}
    cases = dict.fromkeys(item[:2] for item in broken)
    return ResumedFile(
        file.absolute(),
        run_id,
        last_line,
        files=tuple(filter(None, dict.fromkeys(node_id.partition("::")[0] for _, _, node_id in statuses))),
        broken=tuple(cases),
        broken_items=tuple(dict.fromkeys(node_id for _, _, node_id in broken if node_id)),
        unbroken=tuple(item[2] for item in statuses if item not in broken and item[:2] in cases),
        hidden=tuple(
            (node_id, eval_id, target)
            for (_, eval_id, node_id), known in broken.items()
            for target, status in known.items()
            if status != "error"
        ),
        remarks=tuple(remarks),
        is_dry=is_dry,
    )


def new_run_id(started: datetime) -> str:
    return f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"


def _newest_file(folder: Path, *, dry_run: bool) -> Path | None:
    files = [path for path in folder.glob("eval_*") if path.suffix in {".jsonl", ".yaml"}]
    for path in sorted(files, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        try:
            first = next((entry for entry in iter_recorded(path) if not isinstance(entry, Problem)), None)
        except AgentvError:
            return path  # `_read` says why it cannot be read
        if first is None or (first.result.dry_run is True) is dry_run:
            return path
    return None


# The identity of a run, the same in all its processes.

_WORKER_INPUT: Final = "agentv"
_HOST: Final = "agentv_host"
_KEY: Final = pytest.StashKey["RunIdentity"]()


@dataclass(frozen=True, slots=True)
class RunIdentity(Record):
    """A run and the file its results go to."""

    run_id: str
    results_path: Path
    """Absolute."""
    resumed: ResumedFile | None = None
    """The results file whose finished cases are carried over."""
    retries_only: bool = False
    """Whether only the broken cases of that file run."""
    rejudged: ResumedFile | None = None
    """The results file whose answers are judged again."""
    named: tuple[Path, ...] = ()
    """The paths of the command line. All that a worker of xdist collects was named there."""

    @property
    def goes_on(self) -> bool:
        """Whether results are appended to the file whose cases are carried over."""
        return self.resumed is not None and self.resumed.path == self.results_path

    @property
    def crash_mark(self) -> Path:
        """A file that is touched whenever a worker of the run dies."""
        return self.results_path.with_name(f".{self.results_path.name}.crashed")


def run_identity(config: pytest.Config, options: RunOptions) -> RunIdentity:
    """Return the identity that xdist's controller sent to this worker, or this run's own, which is created once.

    A resumed run appends to the same file under the same run id, unless its results go to another file.

    Raises `pytest.UsageError` if there is no run to resume, or if another process is resuming it.
    """
    worker_input = getattr(config, "workerinput", {})
    sent = worker_input.get(_WORKER_INPUT)
    if sent is not None:
        identity = RunIdentity.from_plain(json.loads(sent))
        if worker_input[_HOST] != socket.gethostname():
            where = f"this worker of pytest-xdist is not on the machine of {identity.results_path}"
            raise pytest.UsageError(f"{where}: --agentv-executor runs cases on other machines")
        return identity
    if _KEY not in config.stash:
        config.stash[_KEY] = _new_identity(config, options)
    return config.stash[_KEY]


def check_resumed(config: pytest.Config) -> None:
    """Raise `pytest.UsageError` if there is no run to resume."""
    try:
        options = run_options(config)
    except pytest.UsageError:
        return  # a wrong ini value is a fault of each eval file
    run_identity(config, options)


def _new_identity(config: pytest.Config, options: RunOptions) -> RunIdentity:
    cwd = config.invocation_params.dir
    named = tuple(Path(os.path.normpath(cwd / word.partition("::")[0])) for word in named_arguments(config))
    resumed, retries_only = None, options.retries_only
    if options.resume is not None or options.retry_errors:
        flag = "--agentv-retry-errors" if options.resume is None else RESUME
        folder = cwd / DEFAULT_RESULTS_FOLDER
        resumed = find_last_run(options.resume or folder, flag, dry_run=options.dry_run)
        goes_on = options.out is None or options.out.absolute() == resumed.path
        if goes_on and (fault := resumed.mixing_fault(dry_run=options.dry_run)):
            raise pytest.UsageError(f"{flag}: {fault}")
        with suppress(OSError):  # where nobody can lock files. The last check: the next would find our own lock
            _lock(resumed.path, flag, config)
        if goes_on:
            return RunIdentity(resumed.run_id, resumed.path, resumed, retries_only=retries_only, named=named)
    rejudged = None if options.rejudge is None else find_last_run(options.rejudge, REJUDGE)
    started = datetime.now(UTC)
    path = options.out or default_results_path(cwd, started, options.output_format)
    if rejudged is not None and rejudged.path == path.absolute():
        raise pytest.UsageError(f"{REJUDGE}: {locate(path, None)} holds the answers: write to another file")
    return RunIdentity(
        new_run_id(started), path.absolute(), resumed, retries_only=retries_only, rejudged=rejudged, named=named
    )


def _lock(path: Path, flag: str, config: pytest.Config) -> None:
    """Lock a results file until pytest's end: two runs that resume it at once would pay for the same cases.

    The system opens the lock when its holder dies, however that happens.
    """
    descriptor = flocked(path)
    if descriptor is None:
        where = locate(path, None)
        raise pytest.UsageError(f"{flag}: a run that uses {where} is not over; wait for its end, or end it")
    config.add_cleanup(lambda: os.close(descriptor))


def send_to_worker(identity: RunIdentity, node: Any) -> None:
    """Hand the identity to an xdist worker, as the plain text that execnet can carry."""
    node.workerinput[_WORKER_INPUT] = json.dumps(identity.to_plain())
    node.workerinput[_HOST] = socket.gethostname()
    node.workerinput["agentv_dist"] = str(node.config.getoption("dist"))
