"""The event loop of a run, in a thread of its own."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_agentv.runtime import loop as module
from pytest_agentv.runtime.idle import IdleSelector
from pytest_agentv.runtime.loop import LoopThread


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.stop()


async def running_loop(_: int) -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


async def take_steps(count: int, taken: list[int]) -> None:
    for number in range(count):
        await asyncio.sleep(0)
        taken.append(number)
    await asyncio.sleep(60)


async def never_rest() -> None:
    while True:  # noqa: ASYNC110 - this loop is meant to be busy
        await asyncio.sleep(0)


def test_threads_that_begin_at_once_share_one_loop(thread: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    def create_slowly() -> IdleSelector:
        time.sleep(0.05)
        return IdleSelector()

    monkeypatch.setattr(module, "IdleSelector", create_slowly)
    with ThreadPoolExecutor(8) as pool:
        loops = set(pool.map(lambda number: thread.run(running_loop(number)), range(8)))
    assert len(loops) == 1


def test_who_gives_way_goes_on_when_all_have_done_what_they_could(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GIVE_WAY_SECONDS", 30.0)
    taken: list[int] = []
    for _ in range(3):
        thread.submit(take_steps(20, taken))
    thread.give_way()
    assert len(taken) == 60


def test_a_loop_that_never_rests_holds_nobody_up(thread: LoopThread) -> None:
    thread.submit(never_rest())
    started = time.perf_counter()
    thread.give_way()
    assert time.perf_counter() - started < 5


def test_there_is_nothing_to_give_way_to_before_the_first_call_and_after_the_end(thread: LoopThread) -> None:
    thread.give_way()
    assert not thread.is_running
    thread.run(running_loop(0))
    thread.stop()
    thread.give_way()


def test_a_loop_that_sleeps_is_idle_until_something_comes_that_it_sleeps_for() -> None:
    ours, theirs = socket.socketpair()
    with IdleSelector() as selector, ours, theirs:
        selector.register(ours, 1)
        assert not selector.is_idle
        asleep = selector.next_sleep()
        sleeper = threading.Thread(target=lambda: [selector.select(30)])
        sleeper.start()
        asleep.get(timeout=5)
        assert selector.is_idle
        theirs.send(b"x")
        assert not selector.is_idle
        sleeper.join(5)
        assert not sleeper.is_alive()


def test_a_loop_whose_time_has_come_is_not_idle_though_it_could_not_say_so() -> None:
    with IdleSelector() as selector:
        asleep = selector.next_sleep()
        sleeper = threading.Thread(target=lambda: [selector.select(0.05)])
        sleeper.start()
        asleep.get(timeout=5)
        end = time.perf_counter() + 0.2
        while time.perf_counter() < end:  # the interpreter is kept busy, as by pytest
            pass
        assert not selector.is_idle
        sleeper.join(5)
