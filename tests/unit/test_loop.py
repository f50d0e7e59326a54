"""The event loop of a run, in a thread of its own."""

import asyncio
import inspect
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_agentv.runtime.loop import LoopThread


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.stop()


async def running_loop(_: int) -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_a_forked_process_is_told_that_the_loop_is_not_there(thread: LoopThread) -> None:
    """Threads do not survive a fork: a wait for the loop would never end."""
    thread.run(running_loop(0))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            thread.run(running_loop(1))
        except RuntimeError as error:
            thread.cancel_all()
            thread.stop()
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    is_told = bool(select.select([reading], [], [], 20)[0])
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        told = pipe.read()

    assert is_told
    assert told == (
        f"this process was forked from process {os.getpid()}, where the cases of the run are evaluated: "
        "evaluate there, or in a process that is started anew (`spawn`)"
    )


def test_threads_that_begin_at_once_share_one_loop(thread: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    create = asyncio.SelectorEventLoop

    def create_slowly() -> asyncio.AbstractEventLoop:
        time.sleep(0.05)
        return create()

    monkeypatch.setattr(asyncio, "SelectorEventLoop", create_slowly)
    with ThreadPoolExecutor(8) as pool:
        loops = set(pool.map(lambda number: thread.run(running_loop(number)), range(8)))
    assert len(loops) == 1


def test_an_interval_that_somebody_has_chosen_meanwhile_is_kept(thread: LoopThread) -> None:
    before = sys.getswitchinterval()
    thread.run(running_loop(0))
    sys.setswitchinterval(0.004)
    thread.stop()
    assert sys.getswitchinterval() == pytest.approx(0.004)
    sys.setswitchinterval(before)


def test_after_its_end_a_loop_starts_nothing_and_says_so(thread: LoopThread) -> None:
    thread.run(asyncio.sleep(0))
    thread.stop()
    ended: list[bool] = []
    coroutine = asyncio.sleep(0)
    thread.start(coroutine, lambda done: ended.append(done.cancelled()))
    assert ended == [True]
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
