"""Awaiting code in the caller's task: its errors are values, and only a cancellation of the caller is raised."""

import asyncio
import threading

import pytest

from pytest_agentv.runtime.user_code import Outcome, UserLoop, attempt_async, attempt_here

ATTEMPTS = pytest.mark.parametrize("attempt", [attempt_async, attempt_here])


@ATTEMPTS
@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), asyncio.CancelledError()], ids=repr)
def test_an_error_is_a_value(attempt, error):
    async def fails() -> None:
        raise error

    assert type(asyncio.run(attempt(fails)).error) is type(error)


@ATTEMPTS
def test_a_cancellation_of_the_caller_is_raised(attempt):
    async def run() -> bool:
        task = asyncio.create_task(attempt(lambda: asyncio.sleep(60)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(run())


@ATTEMPTS
def test_a_limit_of_the_caller_is_kept(attempt):
    async def run() -> None:
        async with asyncio.timeout(0):
            await attempt(lambda: asyncio.sleep(60))

    with pytest.raises(TimeoutError):
        asyncio.run(run())


def test_code_of_ours_runs_in_the_task_of_its_caller():
    async def run() -> bool:
        async def task() -> object:
            return asyncio.current_task()

        return (await attempt_here(task)).value is asyncio.current_task()

    assert asyncio.run(run())


def test_an_answer_that_is_there_survives_a_function_that_blocks_the_loop_next() -> None:
    loop, blocked, over = UserLoop(), threading.Event(), threading.Event()

    async def hold() -> None:
        blocked.wait(5)

    async def answer() -> str:
        return "hello"

    async def block() -> None:
        over.wait(10)

    async def ask_all() -> Outcome[str]:
        holding = asyncio.create_task(loop.call(hold, None))
        await asyncio.sleep(0)
        quick, slow = (asyncio.create_task(loop.call(each, 20)) for each in (answer, block))
        await asyncio.sleep(0)
        blocked.set()  # from here both begin in one turn of the loop
        try:
            return await asyncio.wait_for(quick, 5)
        finally:
            over.set()
            await asyncio.gather(holding, slow)

    assert asyncio.run(ask_all()).value == "hello"
    loop.close()
