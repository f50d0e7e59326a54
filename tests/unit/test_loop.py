"""The event loop of a run, in a thread of its own."""

import asyncio
import inspect
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import pytest

from pytest_agentv.runtime.loop import LoopThread


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.stop()


async def running_loop(_: int) -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_threads_that_begin_at_once_share_one_loop(thread: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    create = asyncio.SelectorEventLoop

    def create_slowly() -> asyncio.AbstractEventLoop:
        time.sleep(0.05)
        return create()

    monkeypatch.setattr(asyncio, "SelectorEventLoop", create_slowly)
    with ThreadPoolExecutor(8) as pool:
        loops = set(pool.map(lambda number: thread.run(running_loop(number)), range(8)))
    assert len(loops) == 1


def test_what_is_ready_on_the_loop_runs_before_a_thread_that_yields_goes_on(thread: LoopThread) -> None:
    thread.run(running_loop(0))
    ran: list[int] = []
    for number in range(100):
        thread.call(lambda number=number: ran.append(number))
    thread.yield_to_loop()
    assert ran == list(range(100))


def test_many_threads_may_yield_at_once(thread: LoopThread) -> None:
    thread.run(running_loop(0))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: [thread.yield_to_loop() for _ in range(50)], range(8)))


def test_a_loop_that_is_busy_holds_no_thread_up(thread: LoopThread) -> None:
    thread.run(running_loop(0))
    thread.call(lambda: time.sleep(0.5))
    started = time.perf_counter()
    thread.yield_to_loop()
    assert time.perf_counter() - started < 0.4


def test_without_a_loop_there_is_nothing_to_yield_to(thread: LoopThread) -> None:
    thread.yield_to_loop()
    thread.run(running_loop(0))
    thread.stop()
    thread.yield_to_loop()


def test_a_task_of_ours_reports_its_end_from_any_thread(thread: LoopThread) -> None:
    ended: SimpleQueue[object] = SimpleQueue()

    async def outer() -> str:
        thread.start(inner(), lambda done: ended.put(done.result()))
        return "outer"

    async def inner() -> str:
        return "inner"

    thread.start(outer(), lambda done: ended.put(done.result()))
    assert {ended.get(timeout=10), ended.get(timeout=10)} == {"outer", "inner"}


def test_after_its_end_a_loop_starts_nothing_and_says_so(thread: LoopThread) -> None:
    thread.run(asyncio.sleep(0))
    thread.stop()
    ended: list[bool] = []
    coroutine = asyncio.sleep(0)
    thread.start(coroutine, lambda done: ended.append(done.cancelled()))
    assert ended == [True]
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
