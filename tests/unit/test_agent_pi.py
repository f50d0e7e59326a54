"""pi: its command line, and what its events say."""

from typing import Any

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.model.messages import TokenUsage, candidate_answer
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers.agents.agent import AgentAnswer, AgentCommand
from pytest_agentv.providers.agents.pi import Pi
from pytest_agentv.providers.base import ProviderRequest

FIXED = ("--mode", "json", "--print", "--no-session")
KEY = Secret("sk-secret")


def command(**fields: Any) -> AgentCommand:
    return Pi().replace(**fields).command(ProviderRequest(Prompt("q"), "case"))


def reply(text: str, reason: str = "stop", **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": reason, **fields}


def end(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"type": "agent_end", "messages": list(messages)}


def told(message: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message_end", "message": message}


def read(*events: dict[str, Any]) -> AgentAnswer:
    return Pi().read(events)


@pytest.mark.parametrize(
    ("fields", "variable"),
    [
        ({}, "GEMINI_API_KEY"),
        ({"llm_provider": "Anthropic"}, "ANTHROPIC_API_KEY"),
        ({"model": "openai/gpt-5.5"}, "OPENAI_API_KEY"),
        ({"model": "gemini-2.5-flash"}, "GEMINI_API_KEY"),
        ({"llm_provider": "openrouter", "model": "anthropic/claude"}, "OPENROUTER_API_KEY"),
    ],
)
def test_the_key_is_given_in_the_variable_of_the_provider(fields: dict[str, str], variable: str) -> None:
    called = command(api_key=KEY, **fields)
    assert called.environment == {variable: KEY}
    assert KEY not in called.arguments


@pytest.mark.parametrize("fields", [{"llm_provider": "mine"}, {"model": "mine/m"}])
def test_the_key_of_a_provider_without_a_variable_is_an_argument(fields: dict[str, str]) -> None:
    called = command(api_key=KEY, **fields)
    assert called.arguments[2:] == ("--api-key", KEY, *FIXED)
    assert called.environment == {}


def test_after_retries_of_its_own_the_last_end_counts_and_all_replies_are_paid_for() -> None:
    usage = {"input": 10, "output": 2, "cacheRead": 5, "cacheWrite": 1, "cost": {"total": 0.5}}
    broken, good = reply("", "error", errorMessage="429", usage=usage), reply("4", usage=usage)
    answer = read(told(broken), end(broken), told(good), end(good))
    assert (candidate_answer(answer.messages), answer.failure) == ("4", None)
    assert (answer.token_usage, answer.cost_usd) == (TokenUsage(22, 4, 10), 1)


@pytest.mark.parametrize("time", [0, -1, None, "x", 1e300, 10**18, float("nan")])
def test_a_time_that_is_none_is_left_out(time: Any) -> None:
    assert read(end(reply("4", timestamp=time))).messages[0].timestamp is None


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"type": "session", "id": "x"}, "session"),
        (told(reply("It is 4.")), "message_end: assistant: It is 4."),
        (told(reply("", errorMessage="401")), "message_end: assistant: 401"),
        ({"type": "tool_execution_start", "toolName": "bash", "toolCallId": "c"}, "tool_execution_start: bash (c)"),
        ({"type": "tool_execution_end", "toolName": "bash", "isError": True}, "tool_execution_end: bash failed"),
        ({"type": "auto_retry_start", "attempt": 1, "errorMessage": "429"}, "auto_retry_start: attempt 1: 429"),
        ({"type": "message_start"}, None),
    ],
)
def test_events_have_a_line_in_the_log(event: dict[str, Any], line: str | None) -> None:
    assert Pi().summarize(event) == line
