"""The event loop of a run, in a thread of its own."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pytest_agentv.runtime.loop import LoopThread


async def running_loop(_: int) -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_threads_that_begin_at_once_share_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    create = asyncio.new_event_loop

    def create_slowly() -> Any:
        time.sleep(0.05)
        return create()

    monkeypatch.setattr(asyncio, "new_event_loop", create_slowly)
    thread = LoopThread()
    with ThreadPoolExecutor(8) as pool:
        loops = set(pool.map(lambda number: thread.run(running_loop(number)), range(8)))
    thread.stop()
    assert len(loops) == 1
