"""Runs on a system that gives no more threads or sockets, as at `ulimit -u` or with pytest-socket."""

import os
from contextlib import suppress
from pathlib import Path

import pytest


@pytest.fixture
def mode():
    return ()


NO_THREADS = """
import threading

start = threading.Thread.start
refused = []


def start_or_refuse(self):
    if {condition}:
        refused.append(self.name)
        raise RuntimeError("can't start new thread")
    return start(self)


threading.Thread.start = start_or_refuse
"""

BLOCKED = """
import socket


class SocketBlockedError(RuntimeError):
    pass


class Blocked(socket.socket):
    def __new__(cls, *args, **kwargs):
        raise SocketBlockedError("A test tried to use socket.socket.")


def pytest_runtest_setup():
    socket.socket = Blocked
"""


def write(project, condition, command="echo hello"):
    project.write("conftest.py", NO_THREADS.format(condition=condition))
    project.write("targets.yaml", f"targets: [{{name: default, provider: cli, command_template: {command}}}]\n")
    project.write("qa.eval.yaml", "evalcases:\n  - {id: a, input: q, evaluators: [{contains: hello}]}\n")


@pytest.mark.parametrize(
    "condition", ["self.name == 'agentv-results' and not refused", "self.name == 'agentv-results'"]
)
def test_a_result_is_written_without_a_thread_for_it(project, condition):
    write(project, condition)
    run = project.run(subprocess=True)
    assert (run.exit_code, run.statuses, run.internals) == (0, {"a": "pass"}, [])


def test_a_program_that_nothing_waits_for_is_killed(project):
    write(project, "self.name == 'agentv-wait'", "sleep 9 && echo late > late.txt")
    run = project.run(subprocess=True)
    assert (run.exit_code, run.statuses, run.internals) == (1, {"a": "error"}, [])
    assert run.by_id["a"]["error_detail"]["kind"] == "process"
    assert "cannot run '/bin/sh': can't start new thread to wait for it (a limit of processes" in run.text
    assert not programs_in(project.path)


def test_a_run_ends_well_if_no_thread_closes_the_targets(project):
    write(project, "self.name == 'agentv-close'")
    run = project.run(subprocess=True)
    assert (run.exit_code, run.statuses, run.internals) == (0, {"a": "pass"}, [])
    assert "Total eval cases: 1 (1 passed" in run.text


@pytest.mark.parametrize(
    ("conftest", "reason"),
    [
        (NO_THREADS.format(condition="self.name == 'agentv'"), "its event loop needs a thread: can't start new thread"),
        (
            BLOCKED,
            "its event loop needs a socket pair: SocketBlockedError: A test tried to use socket.socket.; add --al",
        ),
    ],
)
def test_a_run_without_an_event_loop_says_why_in_one_sentence(project, conftest, reason):
    write(project, "False")
    project.write("conftest.py", conftest)
    run = project.run(subprocess=True)
    assert (run.exit_code, run.outcomes, run.internals) == (1, {"errors": 1}, [])
    assert f"no case can run, because {reason}" in run.text
    assert "never awaited" not in run.text


def programs_in(folder):
    """Return the other processes that work in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):  # it has ended
            found += [int(path.parent.name)] if path.readlink() == folder else []
    return [pid for pid in found if pid != os.getpid()]
