"""Cases that are judged when the run is broken off keep their results: one line each, and no error after it."""

import sys

import pytest
from scripted_agent import numbered, read_calls, write_agent, write_cases, write_plugin
from thorough import varied

pytestmark = [pytest.mark.kills, pytest.mark.skipif(sys.platform == "win32", reason="sends signals")]

HELPERS = """
import json, time
from pathlib import Path

def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)

def has_line(name):
    return any(json.loads(line)["eval_id"] == name for line in Path("out-1.jsonl").read_text().splitlines())
"""


@pytest.fixture
def project(project):
    write_agent(project)
    project.write("helpers.py", HELPERS)
    return project


def statuses(run):
    return sorted((result["eval_id"], result["status"]) for result in run.results)


@pytest.mark.parametrize("end", ["raise KeyboardInterrupt", "import pytest; pytest.exit('enough')"], ids=["^C", "exit"])
def test_a_case_that_ran_ahead_keeps_its_result_when_the_run_ends_in_its_setup(project, end):
    write_plugin(
        project,
        f"""
        from helpers import has_line, until

        def pytest_runtest_setup(item):
            if item.name == "case-1":
                until(lambda: has_line("case-1"))
                {end}
        """,
    )
    write_cases(project, {"case-0": "say hello; end_of case-1"})
    write_cases(project, {"case-1": "say hello"}, "sub/a.eval.yaml")
    run = project.run("--agentv-workers=2", "a.eval.yaml", "sub", subprocess=True)
    assert run.exit_code == pytest.ExitCode.INTERRUPTED
    assert statuses(run) == [("case-0", "pass"), ("case-1", "pass")]
    assert "Total eval cases: 2 (2 passed, 0 failed, 0 errors)" in run.text


@pytest.mark.parametrize(
    "end", ["raise KeyboardInterrupt", varied("import pytest; pytest.exit('enough')")], ids=["^C", "exit"]
)
def test_no_case_takes_the_place_of_one_that_is_dropped_because_the_run_ends_in_its_setup(project, end):
    write_plugin(
        project,
        f"""
        import time
        from pathlib import Path
        from helpers import until

        def pytest_runtest_setup(item):
            if item.name == "case-1":
                until(lambda: Path("calls.jsonl").read_text().count('"start"') == 5)
                {end}

        def pytest_sessionfinish():
            time.sleep(0.3)  # a case that started now would have noted its call
        """,
    )
    write_cases(
        project, {"case-0": "say hello", **{f"case-{number}": "sleep 30; say hello" for number in range(1, 12)}}
    )
    run = project.run("--agentv-workers=4", subprocess=True)
    assert run.exit_code == pytest.ExitCode.INTERRUPTED
    assert sorted(read_calls(project.path).started) == [f"case-{number}" for number in range(5)]


def test_a_case_that_ran_ahead_in_a_worker_keeps_its_result_when_the_controller_is_interrupted(project):
    write_plugin(
        project,
        """
        import os, signal, tempfile
        from pathlib import Path
        from helpers import has_line, until

        def pytest_runtest_setup(item):
            if item.name != "case-1":
                return
            until(lambda: has_line("case-1"))
            os.kill(os.getppid(), signal.SIGINT)
            until(lambda: list(Path(tempfile.gettempdir()).glob(f"agentv-*-{os.getppid()}.stopped")))
        """,
    )
    write_cases(project, {"case-0": "say hello; end_of case-1"})
    write_cases(project, {"case-1": "say hello"}, "sub/a.eval.yaml")
    run = project.run("-n1", "--agentv-workers=2", "a.eval.yaml", "sub", subprocess=True)
    assert run.exit_code == pytest.ExitCode.INTERRUPTED
    assert statuses(run) == [("case-0", "pass"), ("case-1", "pass")]
    assert "Total eval cases: 2 (2 passed, 0 failed, 0 errors)" in run.text


def test_a_case_keeps_its_result_when_ctrl_c_comes_while_a_hook_sees_it(project):
    project.write(
        "conftest.py",
        """
        import os, signal, time
        from helpers import has_line

        def pytest_agentv_result(case, result):
            assert has_line(case.eval_id)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)
        """,
    )
    write_cases(project, numbered(2))
    run = project.run(subprocess=True)
    assert run.exit_code == pytest.ExitCode.INTERRUPTED
    assert statuses(run) == [("case-0", "pass")]
    assert "Total eval cases: 1 (1 passed, 0 failed, 0 errors)" in run.text


def test_a_second_ctrl_c_while_a_case_ends_writes_no_second_line(project):
    """The agent takes a moment to end, and somebody is impatient."""
    project.write(
        "agent.py",
        """
        import asyncio, os, signal

        async def answer(prompt):
            os.kill(os.getpid(), signal.SIGINT)
            try:
                await asyncio.sleep(60)
            finally:
                os.kill(os.getpid(), signal.SIGINT)
                await asyncio.sleep(0.5)
        """,
    )
    write_cases(project, numbered(2))
    run = project.run(subprocess=True)
    assert statuses(run) == [("case-0", "error")]
    assert run.results[0]["error_detail"]["kind"] == "cancelled"


INTERRUPTED = """
import pytest
from pytest_agentv.session.plan import Planner

sign = Planner.plan
ended = set()

def sign_or_end(self, prepared):
    name = prepared.case.eval_id if prepared.case else None
    if name == "WHICH" and name not in ended:
        ended.add(name)
        pytest.fail("Timeout >0.7s")  # as the signal of a time-out does, at any line
    return sign(self, prepared)

Planner.plan = sign_or_end
"""


def test_a_time_out_while_a_case_is_begun_is_shown_as_one_while_it_runs(project):
    write_cases(project, numbered(2))
    project.write("conftest.py", INTERRUPTED.replace("WHICH", "case-0"))
    run = project.run()
    assert run.outcomes == {"passed": 1, "errors": 1}
    assert run.by_id["case-0"]["error"] == "ended before it was done: Failed: Timeout >0.7s"
    assert run.by_id["case-0"]["error_detail"] == {"stage": "setup", "kind": "cancelled"}
    assert run.internals == []


def test_a_case_is_no_rerun_because_a_time_out_came_while_it_was_begun_ahead(project):
    """As a rerun it would be asked again, though the run that is resumed has its result."""
    write_cases(project, {"case-0": "say hello", "case-1": "say hello"}, **{"case-1": {"repeat": 3}})
    assert project.run("--agentv-out=own.jsonl").outcomes == {"passed": 2}
    write_cases(project, {"case-0": "say hello; sleep 1", "case-1": "say hello"}, **{"case-1": {"repeat": 3}})
    project.write("conftest.py", INTERRUPTED.replace("WHICH", "case-1"))
    run = project.run("--agentv-out=own.jsonl", "--agentv-resume=own.jsonl", "--agentv-workers=2")
    assert run.outcomes == {"passed": 1, "errors": 1}
    assert read_calls(project.path).started.count("case-1") == 3


AT_THE_END = """
import pytest
from pytest_agentv.session import flight

wait_for = flight.wait_for

def wait_and_end(future, look_around):
    wait_for(future, look_around)
    pytest.fail("Timeout >0.7s")  # as the signal of a time-out does, at any line

flight.wait_for = wait_and_end
"""
WHILE_TOLD = """
import os, signal, sys, threading, time
import pytest
from helpers import until

def end(*_):
    pytest.fail("Timeout >0.7s")

signal.signal(signal.SIGUSR1, end)

def is_waiting():
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame is not None and frame.f_code.co_name != "wait_for":
        frame = frame.f_back
    return frame is not None

def pytest_agentv_result(case, result):
    until(is_waiting)  # pytest may still be busy with what comes before
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.3)
"""


@pytest.mark.parametrize("conftest", [AT_THE_END, WHILE_TOLD], ids=["done", "told"])
def test_a_time_out_that_comes_when_the_case_is_judged_comes_too_late(project, conftest):
    """An error behind the result would have it asked, and paid for, again in a resumed run."""
    project.write("conftest.py", conftest)
    write_cases(project, {"case-0": "say hello", "case-1": "say good day"})
    run = project.run(subprocess=True)
    assert [(result["eval_id"], result["status"]) for result in run.results] == [("case-0", "pass"), ("case-1", "fail")]
    assert run.outcomes == {"passed": 1, "failed": 1}
    assert "Total eval cases: 2 (1 passed, 1 failed, 0 errors)" in run.text
    assert "Reruns:" not in run.text
    assert run.internals == []
