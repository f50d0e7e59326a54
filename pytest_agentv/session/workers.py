"""The processes of an xdist run: their shares, their ends, their crashes."""

import os
import tempfile
from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_agentv.model.base import Record
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.results import EvalResult
from pytest_agentv.session.identity import RunIdentity
from pytest_agentv.session.outcomes import may_be_eval

if TYPE_CHECKING:
    from pytest_agentv.session.resume import CrashResults

# Divides the cases in flight among the processes of a run.

AHEAD: Final = 2
"""Cases that are begun ahead, or queued at a worker, for each place in flight, so that no place stays free."""
WORKER_NUMBER: Final = "agentv_worker"
PLACES: Final = "agentv_places"
"""Attribute of reports: how many cases the worker may have in flight, if that has changed."""


@dataclass(frozen=True, slots=True)
class ProcessShare(Record):
    """This process among those of the run: with `-n 4`, there are four."""

    index: int = 0
    count: int = 1

    def of(self, workers: int) -> int:
        """Return this process's share of a number of workers: they add up to it, but each is at least 1."""
        return max(1, workers // self.count + (self.index < workers % self.count))


def process_share(config: pytest.Config) -> ProcessShare:
    """Return the share of this process. The controller sent its number, because a worker's id may be any text."""
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    if not worker:
        return ProcessShare()
    count = int(worker["workercount"])
    return ProcessShare(int(worker.get(WORKER_NUMBER, 0)) % count, count)


def shared_folder(run_id: str) -> Path:
    """Return the folder in which the processes of a run share findings. It may not exist yet."""
    return Path(tempfile.gettempdir()) / f"agentv-{run_id}"


# Ends a run with many processes at Ctrl-C, or when its controller is killed.


def stop_mark(run_id: str, controller: int) -> Path:
    """Return the file by which an interrupted controller, known by its process id, tells its workers to end.

    Workers get a Ctrl-C themselves, but not a signal to the controller alone. xdist waits only five seconds for them.
    """
    return Path(tempfile.gettempdir()) / f"agentv-{run_id}-{controller}.stopped"


# Watches for workers that die, in the controller of an xdist run, and tells the others.


class CrashWatch:
    """Records which items were sent to workers, which came back, and which one a worker died on."""

    def __init__(self, config: pytest.Config, identity: RunIdentity, options: RunOptions) -> None:
        self._config = config
        self._identity = identity
        self._options = options
        self._collected: set[str] = set()
        self._reported: set[str] = set()
        self._crashed: dict[str, str] = {}
        """The messages of the crashes, by the node ids of the items that ran."""
        self._has_died = False
        """Whether a worker died: while it ran an item, between two, or while it collected."""
        self._has_broken = False
        """Whether pytest itself failed in a worker, perhaps because of a plugin."""
        self._is_stopped = False
        self._stop_mark = stop_mark(identity.run_id, os.getpid())

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._collected.update(filter(may_be_eval, ids))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: Any) -> None:
        """Ignore failures to send commands to a worker that died. They would end the run.

        The next event of the worker is its death, and xdist gives its items to others.
        """
        send = node.sendcommand

        def send_to_living(name: str, **arguments: object) -> None:
            with suppress(OSError):
                send(name, **arguments)

        node.sendcommand = send_to_living

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object | None) -> None:
        # xdist gives a dead worker's items to living ones. The mark tells these that some may be finished.
        if error is not None:
            self._has_died = True
            with suppress(OSError):  # without the folder, there are no results
                self._identity.crash_mark.touch()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        # xdist is about to wait for its workers, and one of them may be running a case.
        if self._collected:
            with suppress(OSError):
                self._stop_mark.touch()

    def pytest_internalerror(self) -> None:
        self._has_broken = True

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        with suppress(OSError):
            self._identity.crash_mark.unlink()
        is_over = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        self._is_stopped = bool(not is_over or session.shouldfail or session.shouldstop)
        if exitstatus == pytest.ExitCode.OK and self.lost(set()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED  # xdist gave up and reports no failure
        has_evals = self._collected or self._identity.results_path.exists()
        if exitstatus == pytest.ExitCode.OK and self._has_broken and has_evals:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR  # xdist shows the error, and goes on with other workers

    def pytest_unconfigure(self) -> None:
        with suppress(OSError):
            self._stop_mark.unlink()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and report.when == "???":  # xdist created it for an item whose worker died
            self._crashed[report.nodeid] = report.longreprtext.strip().rpartition("\n")[2] or "the worker crashed"
        if self._crashed and report.failed:  # `-x` and `--maxfail`: pytest counts a crash as a failure, xdist does not
            session, xdist = map(self._config.pluginmanager.get_plugin, ("session", "dsession"))
            if session is not None and xdist is not None and session.shouldfail and not xdist.shouldstop:
                xdist.shouldstop = session.shouldfail
        if may_be_eval(report.nodeid):
            self._reported.add(report.nodeid)

    @property
    def has_crashed(self) -> bool:
        return bool(self._crashed)

    def crash_results(self, recorded: Container[str]) -> Iterator[EvalResult]:
        """Yield an error for each case that a worker died on before this run had recorded a result of it."""
        results = self._crash_results()
        for node_id, message in self._crashed.items():
            is_open = may_be_eval(node_id) and node_id not in recorded
            if is_open and (result := results.of(node_id, message)) is not None:
                yield result

    def lost(self, recorded: set[str]) -> list[str]:
        """Return the node ids of cases that xdist neither ran nor reported."""
        may_be_lost = (self._crashed or self._has_died) and not self._is_stopped
        missing = sorted(self._collected - self._reported - recorded) if may_be_lost else []
        if not missing:
            return []
        results = self._crash_results()
        return [node_id for node_id in missing if results.is_case(node_id)]

    def _crash_results(self) -> "CrashResults":
        from pytest_agentv.session.resume import CrashResults  # noqa: PLC0415 - imports the engine, only after a crash

        return CrashResults(self._config, self._identity, self._options)
