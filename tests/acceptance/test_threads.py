"""Which thread does what in a run: the contract of `session/`."""

from collections import defaultdict

import pytest
from scripted_agent import numbered, write_agent, write_cases, write_plugin

from pytest_agentv.runtime.loop import LoopThread

SPY = """
import functools, inspect, signal, threading
import pytest
from pytest_agentv.engine.pool import TargetPool
from pytest_agentv.store.writers import ResultSink
from pytest_agentv.session.case_runs import Ending
from pytest_agentv.session.case_runs import CaseRuns
from pytest_agentv.session.flight import Flight
from pytest_agentv.session.progress import Progress

def note(name):
    with open("threads.txt", "a") as file:
        print(name, threading.current_thread().name, file=file)

def spy(owner, name):
    real = getattr(owner, name)
    @functools.wraps(real)
    def spied(*args, **kwargs):
        note(f"{owner.__name__}.{name}")
        return real(*args, **kwargs)
    @functools.wraps(real)
    async def spied_coroutine(*args, **kwargs):
        return await spied(*args, **kwargs)
    setattr(owner, name, spied_coroutine if inspect.iscoroutinefunction(real) else spied)

for owner, name in (
    (TargetPool, "prepare"), (TargetPool, "pace"), (TargetPool, "close"), (ResultSink, "write"), (CaseRuns, "_record"),
    (Flight, "begin"), (Flight, "wait"), (Flight, "end"), (Ending, "ask"), (Ending, "_cancel"), (Progress, "show"),
):
    spy(owner, name)

def pytest_agentv_result(case, result):
    note("hook")

def end(number, frame):
    pytest.fail("Timeout")

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    if item.name == "slow":
        signal.signal(signal.SIGALRM, end)
        signal.setitimer(signal.ITIMER_REAL, 0.7)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
"""
OWNERS = {
    "MainThread": {"Flight.begin", "Flight.wait", "Flight.end", "Ending.ask", "Progress.show"},
    "agentv": {"TargetPool.prepare", "TargetPool.pace", "TargetPool.close", "CaseRuns._record", "Ending._cancel"},
    "agentv-results": {"ResultSink.write"},
    "agentv-hook": {"hook"},
}


def test_each_thread_does_what_is_its_own(project):
    write_agent(project)
    write_plugin(project, SPY)
    write_cases(project, {**numbered(4), "slow": "sleep 61; say hello"})
    run = project.run("--agentv-workers=2", subprocess=True)
    assert run.outcomes == {"passed": 4, "errors": 1}
    found = defaultdict(set)
    for line in (project.path / "threads.txt").read_text().splitlines():
        name, thread = line.split()
        found[thread].add(name)
    assert found == OWNERS


def test_a_cancellation_goes_from_the_item_to_its_task_and_then_to_its_record(project):
    write_agent(project)
    write_plugin(project, SPY)
    write_cases(project, {"slow": "sleep 61; say hello"})
    assert project.run(subprocess=True).outcomes == {"errors": 1}
    steps = [line.split()[0] for line in (project.path / "threads.txt").read_text().splitlines()]
    way = ["Flight.begin", "Flight.wait", "Flight.end", "Ending.ask", "Ending._cancel", "CaseRuns._record"]
    assert [step for step in steps if step in way] == way
    assert steps.index("CaseRuns._record") < steps.index("ResultSink.write") < steps.index("hook")


def test_the_loops_own_thread_must_not_wait_for_the_loop():
    async def wait_for_itself():
        thread.run(do_nothing())

    async def do_nothing():
        """End at once."""

    thread = LoopThread()
    try:
        with pytest.raises(RuntimeError, match="must not wait"):
            thread.run(wait_for_itself())
    finally:
        thread.stop()
