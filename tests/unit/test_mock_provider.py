import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.messages import ToolCall, TraceEvent, candidate_answer
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.kind import Provider
from pytest_agentv.providers.mock import Mock, MockProvider, choose_delay, dry_run_provider

REQUEST = ProviderRequest(Prompt("q"), "case")


def invoke(settings: Mock, slept: list[float] | None = None) -> ProviderResponse:
    async def sleep(seconds: float) -> None:
        if slept is not None:
            slept.append(seconds)

    provider: Provider = MockProvider("m", settings, sleep)

    async def scenario() -> ProviderResponse:
        await provider.check()
        response = await provider.invoke(REQUEST)
        await provider.close()
        return response

    return asyncio.run(scenario())


def answer(response: ProviderResponse) -> str:
    return candidate_answer(response.output_messages)


@pytest.mark.scenario("Mock provider for dry-run")
def test_the_configured_answer_is_given_without_a_delay() -> None:
    slept: list[float] = []

    assert answer(invoke(Mock(response="canned"), slept)) == "canned"
    assert slept == []


def test_an_empty_answer_can_be_configured() -> None:
    assert answer(invoke(Mock(response=""))) == ""


def test_without_a_configured_answer_there_is_a_fixed_one() -> None:
    assert answer(invoke(Mock())) == '{"answer":"Mock provider response"}'


@pytest.mark.scenario("Mock provider for dry-run")
def test_a_dry_run_has_an_answer_of_its_own() -> None:
    assert answer(asyncio.run(dry_run_provider().invoke(REQUEST))) == '{"answer":"Mock dry-run response"}'


def test_a_fixed_delay_is_waited_for() -> None:
    slept: list[float] = []

    invoke(Mock(delay_ms=250), slept)

    assert slept == [0.25]


@given(st.integers(0, 1000), st.integers(1, 1000))
def test_a_range_of_delays_comes_before_the_fixed_one(low: int, high: int) -> None:
    delay = choose_delay(Mock(delay_ms=5000, delay_min_ms=low, delay_max_ms=high))

    assert low <= delay <= max(low, high)
    assert delay == int(delay)


def test_a_range_without_an_upper_end_is_its_lower_end() -> None:
    assert choose_delay(Mock(delay_min_ms=30)) == 30


def test_the_delays_of_a_dry_run_are_those_of_its_provider() -> None:
    provider = dry_run_provider(1, 20, 20)

    assert choose_delay(provider._settings) == 20


def test_a_configured_trace_and_messages_are_reported() -> None:
    settings = Mock(
        trace=({"type": "tool_call", "name": "t"},),
        output_messages=({"role": "assistant", "content": "c", "tool_calls": [{"tool": "t", "input": {"aB": 1}}]},),
    )

    response = invoke(settings)

    assert response.trace == (TraceEvent("tool_call", name="t"),)
    assert answer(response) == "c"
    assert response.output_messages is not None
    assert response.output_messages[0].tool_calls == (ToolCall("t", {"aB": 1}),)


def test_a_wrong_trace_is_an_error_of_the_configuration() -> None:
    with pytest.raises(ProviderError) as caught:
        invoke(Mock(trace=({"name": "t"},)))

    assert str(caught.value).startswith(
        "the answer's trace[0]: an event has the type None: expected one of model_step, "
    )
    assert caught.value.kind == "config"
