"""Runs on a system that gives no more threads or sockets, as at `ulimit -u` or with pytest-socket; memory of a run."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from thorough import varied


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


TWO_CASES = "evalcases:\n" + "".join(
    f"  - {{id: {name}, input: {name}, evaluators: [{{contains: hello}}]}}\n" for name in "ab"
)
TWO_TESTS = """
def test_a(agentv):
    assert agentv.run("a", evaluators=[{"contains": "hello"}])

def test_b(agentv):
    assert agentv.run("b", evaluators=[{"contains": "hello"}])
"""


@pytest.mark.parametrize(
    ("name", "text", "flags"),
    [
        ("qa.eval.yaml", TWO_CASES, ("--agentv-workers=4",)),
        pytest.param("test_qa.py", TWO_TESTS, ("-n2",), marks=pytest.mark.slow),
        varied("qa.eval.yaml", TWO_CASES, ("-n2",)),
        varied("test_qa.py", TWO_TESTS, ()),
    ],
    ids=["cases", "tests-n2", "cases-n2", "tests"],
)
def test_without_an_event_loop_each_case_is_recorded_as_an_error(project, name, text, flags):
    """In a resumed run, the results of the runs before counted, even for a case that has changed."""
    write(project, "False", "echo x >> asked.txt; echo hello")
    (project.path / "qa.eval.yaml").unlink()
    project.write(name, text)
    own = ("--agentv-out=own.jsonl", *flags)
    assert project.run(*own, subprocess=True).outcomes == {"passed": 2}
    project.write(name, text.replace("input: b", "input: new").replace('("b"', '("new"'))
    project.write("conftest.py", BLOCKED)
    run = project.run(*own, "--agentv-resume=own.jsonl", subprocess=True)
    assert (run.exit_code, run.outcomes, run.internals) == (1, {"errors": 2}, [])
    assert "Total eval cases: 2 (0 passed, 0 failed, 2 errors)" in run.lines
    project.write("conftest.py", "")
    run = project.run(*own, "--agentv-resume=own.jsonl", subprocess=True)
    assert "Total eval cases: 2 (2 passed, 0 failed, 0 errors)" in run.lines
    assert (project.path / "asked.txt").read_text().count("x") == 3, "a is carried over from the first run"


def programs_in(folder):
    """Return the other processes that work in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):  # it has ended
            found += [int(path.parent.name)] if path.readlink() == folder else []
    return [pid for pid in found if pid != os.getpid()]


MEGABYTE = 2**20
MEASURE = """
import gc, pathlib
def pytest_runtest_logfinish(nodeid):
    gc.collect()
    pages = int(pathlib.Path('/proc/self/statm').read_text().split()[1])
    with open('memory.txt', 'a') as file:
        file.write(f'{pages * 4096}\\n')
"""


@pytest.mark.slow
def test_a_run_needs_no_more_for_many_cases_with_a_large_file_than_for_few(project):
    project.write("conftest.py", MEASURE)
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    project.write("large.txt", ("y" * 79 + "\n") * (5 * MEGABYTE // 80))
    content = "[{type: text, value: Say hello}, {type: file, value: large.txt}]"
    project.write(
        "x.eval.yaml",
        "evalcases:\n"
        + "".join(
            f"  - {{id: c{number}, expected_outcome: x, input_messages: [{{role: user, content: {content}}}],"
            " evaluators: [{name: words, type: heuristic, hits: [hello]}]}\n"
            for number in range(9)
        ),
    )

    run = project.run("--agentv-workers=1", subprocess=True)

    assert run.outcomes == {"passed": 9}
    assert len(run.by_id["c8"]["lm_provider_request"]["question"]) > 5_000_000
    used = [int(line) for line in (project.path / "memory.txt").read_text().split()]
    # What the allocator returns varies by 15 MB from case to case. Kept, each of the last four would add 5 MB.
    assert (max(used[5:]) - max(used[:5])) / MEGABYTE < 12, used
