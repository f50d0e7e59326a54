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


def test_groups_have_limits_of_their_own(loop: LoopThread) -> None:
    gates, scheduler = Gates(), Scheduler[str](loop)
    submit(scheduler, gates, "a", "b", limit=1, group="slow")
    submit(scheduler, gates, "c", "d", limit=2, group="fast")
    assert started(loop, gates) == ["a", "c", "d"]


def test_an_urged_job_starts_whatever_the_limit(loop: LoopThread) -> None:
    gates, scheduler = Gates(), Scheduler[str](loop)
    futures = submit(scheduler, gates, "a", "b", "c", limit=1)
    scheduler.start_now(futures[2])
    assert started(loop, gates) == ["a", "c"]
    gates.open("a")
    wait_for(futures[0])
    assert started(loop, gates) == ["a", "c"], "the group is still full"
    gates.open("c")
    wait_for(futures[2])
    assert started(loop, gates) == ["a", "c", "b"]


def test_while_nothing_may_start_only_those_that_are_to_start_now_do(loop: LoopThread) -> None:
    held: list[str] = []
    gates, scheduler = Gates(), Scheduler[str](loop, may_start=lambda: not held)
    futures = submit(scheduler, gates, "a", "b", "c", limit=1)
    held.append("a failure")
    gates.open("a")
    wait_for(futures[0])
    assert started(loop, gates) == ["a"]
    scheduler.start_now(futures[2])
    assert started(loop, gates) == ["a", "c"]
    gates.open("c")
    wait_for(futures[2])
    assert started(loop, gates) == ["a", "c"]
    held.clear()
    scheduler.start_waiting()
    assert started(loop, gates) == ["a", "c", "b"]


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


def test_a_job_that_started_when_another_ended_is_handed_on_in_the_same_way(loop: LoopThread) -> None:
    held: list[str] = []
    gates, scheduler = Gates(), Scheduler[str](loop, may_start=lambda: not held)

    async def fail(_: Leave) -> str:
        raise ValueError("broken")

    (first,) = submit(scheduler, gates, "a", limit=1)
    broken = scheduler.submit(fail, group="", limit=1)
    (last,) = submit(scheduler, gates, "b", limit=1)
    gates.open("a")
    with pytest.raises(ValueError, match="broken"):
        wait_for(broken)
    assert wait_for(first) == "a"
    held.append("the end")
    started(loop, gates)
    loop.cancel_all()
    assert wait([last], timeout=5).done == {last}
    assert last.cancelled()
    assert scheduler.in_flight == 0


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


def test_stopping_the_loop_cancels_what_runs(loop: LoopThread) -> None:
    held: list[str] = []
    gates, scheduler = Gates(), Scheduler[str](loop, may_start=lambda: not held)
    futures = submit(scheduler, gates, "a", "b", limit=2)
    started(loop, gates)
    held.append("the end")
    loop.cancel_all()
    done, _ = wait(futures, timeout=5)
    assert all(future.cancelled() for future in done)
    assert len(done) == 2
    assert scheduler.in_flight == 0


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


def test_a_job_that_is_alone_never_leaves_its_place(loop: LoopThread) -> None:
    gates, scheduler = Gates(), Scheduler[str](loop)

    async def job(leave: Leave) -> str:
        leave()
        return await gates.job("first")

    scheduler.submit(job, group="", limit=1)
    submit(scheduler, gates, "second", limit=1)
    assert started(loop, gates) == ["first"]
    gates.open("first")
    gates.open("second")


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
