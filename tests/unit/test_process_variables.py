"""The turns in which calls see the variables of their folders in `os.environ`."""

import asyncio
import contextvars
import os
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from pytest_agentv.engine.pool import ProcessVariables
from pytest_agentv.errors import ProviderError

A = {"AGENTV_TEST_X": "a"}
B = {"AGENTV_TEST_X": "b", "AGENTV_TEST_Y": "b"}
NAMES = ("AGENTV_TEST_X", "AGENTV_TEST_Y")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def seen() -> dict[str, str]:
    return {name: os.environ[name] for name in NAMES if name in os.environ}


def apart(coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    """Start a task that is no part of the running call."""
    return asyncio.create_task(coroutine, context=contextvars.Context())


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 10))
    assert seen() == {}


def test_calls_with_equal_variables_are_made_together_and_others_wait() -> None:
    process, log = ProcessVariables(), []

    async def call(variables: Mapping[str, str]) -> None:
        async with process.shown(dict(variables)):
            log.append(("in", seen()))
            await asyncio.sleep(0.01)
            assert seen() == variables
            log.append(("out", seen()))

    async def scenario() -> None:
        await asyncio.gather(*map(call, (A, A, B, {}, A, B)))

    run(scenario())
    # The third A came when others waited already: nobody waits for ever.
    assert [word for word, variables in log if variables == A] == ["in", "in", "out", "out", "in", "out"]
    assert [word for word, variables in log if variables == B] == ["in", "in", "out", "out"]
    assert [word for word, variables in log if not variables] == ["in", "out"]


def test_a_value_of_the_process_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    process = ProcessVariables()

    async def scenario() -> None:
        with monkeypatch.context() as patch:
            patch.setenv("AGENTV_TEST_X", "own")
            async with process.shown(B):
                assert seen() == {"AGENTV_TEST_X": "own", "AGENTV_TEST_Y": "b"}
                patch.setenv("AGENTV_TEST_Y", "set meanwhile")
            assert seen() == {"AGENTV_TEST_X": "own", "AGENTV_TEST_Y": "set meanwhile"}

    asyncio.run(scenario())
    process.close()
    assert seen() == {}


def test_what_a_fixture_restores_goes_at_the_end() -> None:
    process = ProcessVariables()

    async def scenario() -> None:
        async with process.shown(A):
            before = dict(os.environ)
        os.environ.update(before)
        process.close()

    run(scenario())


def test_a_cancelled_call_keeps_nobody_waiting() -> None:
    process = ProcessVariables()

    async def call(variables: Mapping[str, str]) -> None:
        async with process.shown(variables):
            await asyncio.sleep(0)

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(process.shown(A))
            waiting = [apart(call(B)), apart(call({}))]
            await asyncio.sleep(0)
            waiting[0].cancel()
            await asyncio.sleep(0)
        await waiting[1]
        # One that is cancelled at the moment when its turn has come hands the turn on.
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(process.shown(A))
            waiting = [apart(call(B)), apart(call({}))]
            await asyncio.sleep(0)
        waiting[0].cancel()
        await waiting[1]

    run(scenario())


def test_a_call_within_a_call_of_another_folder_is_an_error_and_no_deadlock() -> None:
    process = ProcessVariables()

    async def scenario() -> None:
        async with process.shown(A):
            with pytest.raises(ProviderError, match=r"within a call of a folder that has another \.env"):
                async with process.shown(B):
                    pass

    run(scenario())
