import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait

import pytest

from pytest_agentv.engine.scheduler import Leave, Scheduler
from pytest_agentv.runtime.loop import LoopThread, wait_for


class Gates:
    """Jobs that end when they are told to, and a record of what was started and how many ran at a time."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.running = 0
        self.most = 0
        self._gates: dict[str, threading.Event] = {}

    async def job(self, name: str) -> str:
        self.started.append(name)
        self.running += 1
        self.most = max(self.most, self.running)
        gate = self._gates.setdefault(name, threading.Event())
        while not gate.is_set():  # noqa: ASYNC110 - it is set by another thread
            await asyncio.sleep(0.001)
        self.running -= 1
        return name

    def open(self, name: str) -> None:
        self._gates.setdefault(name, threading.Event()).set()


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.stop()


def submit(scheduler: Scheduler[str], gates: Gates, *names: str, limit: int, group: str = "") -> list[Future[str]]:
    return [scheduler.submit(lambda _, name=name: gates.job(name), group=group, limit=limit) for name in names]


def started(loop: LoopThread, gates: Gates) -> list[str]:
    loop.run(asyncio.sleep(0))  # what was submitted before has been started by now
    return gates.started


@pytest.mark.scenario("Immediate work scheduling")
def test_the_next_job_starts_the_moment_one_ends(loop: LoopThread) -> None:
    gates, scheduler = Gates(), Scheduler[str](loop)
    futures = submit(scheduler, gates, *"abcdefghij", limit=4)
    assert started(loop, gates) == ["a", "b", "c", "d"]
    gates.open("c")
    assert wait_for(futures[2]) == "c"
    assert started(loop, gates) == ["a", "b", "c", "d", "e"]
    for name in "abcdefghij":
        gates.open(name)
    assert [wait_for(future) for future in futures] == list("abcdefghij")
    assert gates.most == 4


def test_a_job_that_is_dropped_never_starts_and_its_future_is_cancelled(loop: LoopThread) -> None:
    gates, scheduler = Gates(), Scheduler[str](loop)
    running, waiting, last = submit(scheduler, gates, "a", "b", "c", limit=1)
    assert scheduler.drop(waiting)
    assert wait([waiting], timeout=5).done == {waiting}
    assert waiting.cancelled()
    assert not scheduler.drop(waiting)
    assert not scheduler.drop(running)
    gates.open("a")
    wait_for(running)
    assert started(loop, gates) == ["a", "c"]
    gates.open("c")
    assert wait_for(last) == "c"
    assert scheduler.unfinished == 0


def test_a_job_that_ends_after_nobody_waits_for_it_any_more_ends_quietly(
    loop: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    gates, scheduler = Gates(), Scheduler[str](loop)
    given_up, other = submit(scheduler, gates, "a", "b", limit=2)
    started(loop, gates)
    assert given_up.cancel()  # as Ctrl-C does with the one that is waited for
    gates.open("a")
    gates.open("b")
    assert wait_for(other) == "b"
    loop.run(asyncio.sleep(0))
    assert scheduler.in_flight == 0
    assert caplog.records == []


def test_a_job_may_leave_its_place_before_it_has_ended_but_only_one_of_four_at_a_time(loop: LoopThread) -> None:
    gates, scheduler = Gates(), Scheduler[str](loop)

    def submit_leaving(name: str) -> Future[str]:
        async def job(leave: Leave) -> str:
            gates.started.append(name)
            leave()
            leave()
            return await gates.job(f"end of {name}")

        return scheduler.submit(job, group="", limit=4)

    leaving = [submit_leaving(name) for name in "ab"]
    waiting = submit(scheduler, gates, *"cdef", limit=4)
    assert started(loop, gates) == ["a", "end of a", "b", "end of b", "c", "d", "e"]
    assert (scheduler.in_flight, scheduler.unfinished) == (4, 6)
    gates.open("end of a")
    assert wait_for(leaving[0]) == "end of a"
    assert started(loop, gates)[-1] == "e"
    gates.open("end of b")
    assert wait_for(leaving[1]) == "end of b"
    assert started(loop, gates)[-1] == "f"
    for name, future in zip("cdef", waiting, strict=True):
        gates.open(name)
        assert wait_for(future) == name
    assert (scheduler.in_flight, scheduler.unfinished) == (0, 0)


def test_a_job_with_a_higher_limit_passes_those_of_its_group_with_a_lower_one(loop: LoopThread) -> None:
    gates, scheduler = Gates(), Scheduler[str](loop)
    low = submit(scheduler, gates, "a", "b", limit=1)
    high = submit(scheduler, gates, "c", "d", limit=2)
    assert started(loop, gates) == ["a", "c"]
    gates.open("a")
    assert wait_for(low[0]) == "a"
    assert started(loop, gates) == ["a", "c", "d"]
    for name, future in (("c", high[0]), ("d", high[1])):
        gates.open(name)
        assert wait_for(future) == name
    assert started(loop, gates)[-1] == "b"
    gates.open("b")
    assert wait_for(low[1]) == "b"
    assert scheduler.unfinished == 0


def test_what_a_job_raises_is_raised_by_its_future_and_frees_its_place(loop: LoopThread) -> None:
    gates, scheduler = Gates(), Scheduler[str](loop)

    async def fail(_: Leave) -> str:
        raise ValueError("broken")

    broken = scheduler.submit(fail, group="", limit=1)
    (following,) = submit(scheduler, gates, "a", limit=1)
    with pytest.raises(ValueError, match="broken"):
        wait_for(broken)
    gates.open("a")
    assert wait_for(following) == "a"
