"""The identity of a run, the same in all its processes."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_agentv.errors import AgentvError
from pytest_agentv.models.base import Record
from pytest_agentv.models.options.defaults import DEFAULT_RESULTS_FOLDER
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.records import record
from pytest_agentv.reporting.serialization import stored_name
from pytest_agentv.reporting.writers import default_results_path, kept_folder
from pytest_agentv.session.options import run_options
from pytest_agentv.session.recording.last_run import RESUME, ResumedFile, find_last_run, new_run_id
from pytest_agentv.session.recording.travel import Place

if TYPE_CHECKING:  # only for runs that retry errors
    from pytest_agentv.session.recording.case_files import CaseFiles

_WORKER_INPUT: Final = "agentv"
_REFUSAL: Final = "agentv_refusal"
_KEY: Final = pytest.StashKey["RunIdentity"]()


@record
class RunIdentity(Record):
    """A run and the file its results go to."""

    run_id: str
    results_path: Path
    """Absolute."""
    resumed: ResumedFile | None = None
    """The results file whose finished cases are carried over."""
    home: Place | None = None
    """The folder of the results file: a worker on another machine must not write to a file of the same path."""
    retried: tuple[tuple[str, str], ...] | None = None
    """Eval file and id of the only cases that run; None: all cases run."""

    @property
    def goes_on(self) -> bool:
        """Whether results are appended to the file whose cases are carried over."""
        return self.resumed is not None and self.resumed.path == self.results_path

    def retried_items(self) -> Callable[[str, tuple[str, str | None] | None], bool] | None:
        """Return what tells whether an item is retried, by its node id and its eval file and id; None: all items run.

        A case is known by its file and id as well, because its node id depends on the root directory.
        """
        if self.retried is None or self.resumed is None:
            return None
        cases: frozenset[tuple[str, str | None]] = frozenset(self.retried)
        broken, unbroken = frozenset(self.resumed.broken_items), frozenset(self.resumed.unbroken)

        def is_retried(node_id: str, case: tuple[str, str | None] | None) -> bool:
            node_id = stored_name(node_id)
            if case is not None and case[1] is not None:
                case = case[0], stored_name(case[1])
            return node_id in broken or (case in cases and node_id not in unbroken)

        return is_retried

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
    if _REFUSAL in worker_input:
        raise pytest.UsageError(worker_input[_REFUSAL])
    sent = worker_input.get(_WORKER_INPUT)
    if sent is not None:
        return RunIdentity.from_plain(json.loads(sent))
    if _KEY not in config.stash:
        config.stash[_KEY] = _new_identity(config, options)
    return config.stash[_KEY]


def check_resumed(config: pytest.Config) -> None:
    """Raise `pytest.UsageError` if this is to be a resumed run, and there is no run to resume."""
    if config.getoption("agentv_resume") is None and not config.getoption("agentv_retry_errors"):
        return
    try:
        options = run_options(config)
    except pytest.UsageError:
        return  # a wrong ini value is a fault of each eval file
    run_identity(config, options)


def _new_identity(config: pytest.Config, options: RunOptions) -> RunIdentity:
    cwd = config.invocation_params.dir
    resumed = retried = None
    if options.resume is not None or options.retry_errors:
        from pytest_agentv.session.recording.resume_lock import lock_resumed  # noqa: PLC0415 - only for resumed runs

        flag = "--agentv-retry-errors" if options.resume is None else RESUME
        folder = cwd / DEFAULT_RESULTS_FOLDER
        resumed = find_last_run(
            options.resume or folder,
            flag,
            options.executor,
            dry_run=options.dry_run,
            own_target=_target_in_results(config, options) if options.retries_only else None,
        )
        goes_on = options.out is None or options.out.absolute() == resumed.path
        if goes_on and (fault := resumed.mixing_fault(dry_run=options.dry_run)):
            raise pytest.UsageError(f"{flag}: {fault}")
        lock_resumed(resumed.path, flag, config)  # the last check: the next eval file would find our own lock
        retried = resumed.broken if options.resume is None else None
        if goes_on:
            return RunIdentity(resumed.run_id, resumed.path, resumed, retried=retried)
    started = datetime.now(UTC)
    path = options.out or default_results_path(cwd, started, options.output_format)
    _add_left_results(path)
    return RunIdentity(new_run_id(started), path.absolute(), resumed, retried=retried)


def _target_in_results(config: pytest.Config, options: RunOptions) -> Callable[[str], str]:
    """Return what tells the target of an item in this run. It reads eval files, so most runs never call it."""

    @cache
    def files() -> "CaseFiles":
        from pytest_agentv.session.recording.case_files import CaseFiles  # noqa: PLC0415 - see the docstring

        return CaseFiles(config, options)

    return lambda node_id: files().target_in_results(node_id)


def _add_left_results(path: Path) -> None:
    """Write the results that workers kept of a killed run to its file, to which a new run appends now."""
    if os.path.isdir(kept_folder(path)):  # noqa: PTH112 - False also for a name that is too long
        from pytest_agentv.session.recording.left_results import add_left_results  # noqa: PLC0415 - rare

        try:
            add_left_results(path)
        except AgentvError as error:
            raise pytest.UsageError(str(error)) from None


def refuse_in_worker(node: Any, error: pytest.UsageError) -> None:
    """Tell a worker why no run can begin. Only workers know whether there are evals."""
    node.workerinput[_REFUSAL] = str(error)


def raise_refusal(node: Any) -> None:
    """Raise the `pytest.UsageError` for which a worker ended; return if it ended for another one."""
    if _REFUSAL in node.workerinput:
        raise pytest.UsageError(node.workerinput[_REFUSAL])


def send_to_worker(identity: RunIdentity, node: Any) -> None:
    """Hand the identity to an xdist worker, as the plain text that execnet can carry."""
    sent = identity.replace(home=Place.of(identity.results_path))
    node.workerinput[_WORKER_INPUT] = json.dumps(sent.to_plain())
    node.workerinput["agentv_dist"] = str(node.config.getoption("dist"))
