"""The event loop of a run, in a thread of its own."""

import asyncio
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


def test_threads_that_begin_at_once_share_one_loop(thread: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    create = asyncio.SelectorEventLoop

    def create_slowly() -> asyncio.AbstractEventLoop:
        time.sleep(0.05)
        return create()

    monkeypatch.setattr(asyncio, "SelectorEventLoop", create_slowly)
    with ThreadPoolExecutor(8) as pool:
        loops = set(pool.map(lambda number: thread.run(running_loop(number)), range(8)))
    assert len(loops) == 1
