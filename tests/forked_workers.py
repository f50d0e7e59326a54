"""Workers of `processes:N` that are forked, as runs are: a fresh one costs a fifth of a second."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
import warm

from pytest_agentv.executors import processes

_MOVE_SOCKET = """
import os, sys
sys.argv.insert(1, str(os.dup(0)))
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
del sys.path[0]
"""
"""A forked process gets no other files than its streams, so the worker's socket comes as its input."""
FOR_A_RUN: Final = ("-p", "forked_workers", "-o", f"pythonpath={Path(__file__).parent}")


def fork_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs in this process fork their workers; runs in other processes start fresh ones."""
    monkeypatch.setattr("pytest_agentv.executors.processes.subprocess", _SUBPROCESS)


def pytest_configure() -> None:
    """Do so in a run of another process, for which this module is a plugin: `FOR_A_RUN` are its flags."""
    processes.subprocess = _SUBPROCESS  # type: ignore[assignment]


def _start(command: list[str], *, pass_fds: list[int], **options: Any) -> warm.Popen:
    python, _, _, program, _, *arguments = command
    assert (python, options.pop("stdin")) == (sys.executable, subprocess.DEVNULL)
    (socket,) = pass_fds
    return warm.Popen([python, "-u", "-c", _MOVE_SOCKET + program, *arguments], stdin=socket, **options)


_SUBPROCESS: Final = SimpleNamespace(**{**vars(subprocess), "Popen": _start})
