"""Ends a run with many processes at Ctrl-C, or when its controller is killed."""

import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from pytest_agentv.errors import locate
from pytest_agentv.session.compat import TerminalReporter


def stop_mark(run_id: str, controller: int) -> Path:
    """Return the file by which an interrupted controller, known by its process id, tells its workers to end.

    Workers get a Ctrl-C themselves, but not a signal to the controller alone. xdist waits only five seconds for them.
    """
    return Path(tempfile.gettempdir()) / f"agentv-{run_id}-{controller}.stopped"


class Parent:
    """The process that started this one. An xdist worker without its controller must make no more calls."""

    def __init__(self, config: pytest.Config, run_id: str) -> None:
        self._pid = os.getppid() if hasattr(config, "workerinput") else None
        self._stop_mark = stop_mark(run_id, os.getppid())

    def is_gone(self) -> bool:
        """Whether the process was killed, or was interrupted and waits for this one."""
        return self._pid is not None and (os.getppid() != self._pid or self._stop_mark.exists())


class EndingInterrupt:
    """Ends a run without a traceback at a Ctrl-C while its session finishes. pytest handles only those before."""

    def __init__(self, terminal: TerminalReporter, results_path: Path) -> None:
        self._terminal = terminal
        self._results_path = results_path

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        try:
            return (yield)
        except KeyboardInterrupt:
            self._end(session, ", so its summary and reports are not complete")
            return None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_unconfigure(self, config: pytest.Config) -> Generator[None, object, object]:
        try:
            return (yield)
        except KeyboardInterrupt:
            self._end(config.pluginmanager.get_plugin("session"))
            return None

    def _end(self, session: pytest.Session | None, lack: str = "") -> None:
        if session is not None:
            session.exitstatus = pytest.ExitCode.INTERRUPTED
        where = locate(self._results_path, None)
        self._terminal.line("")
        self._terminal.write_line(f"agentv: Ctrl-C while the run ended{lack}; results are in {where}", red=True)


def shorten_traceback(config: pytest.Config, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Cut an interrupt's traceback to the part that pytest shows, because rendering all of it takes half a second.

    pytest names the last visible frame, and needs one: the frame of `pytest.exit` is hidden.
    """
    if config.getoption("fulltrace", default=False):
        return
    entries = excinfo.traceback
    shown = next((place for place in reversed(range(len(entries))) if not entries[place].ishidden(excinfo)), 0)
    excinfo.traceback = entries[shown:]
