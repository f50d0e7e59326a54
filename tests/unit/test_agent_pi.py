"""pi: its command line, and what its events say."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.model.messages import TokenUsage, ToolCall, candidate_answer
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


def events_of(golden: Callable[[str], str], name: str) -> Sequence[dict[str, Any]]:
    return [json.loads(line) for line in golden(f"agents/pi-{name}.jsonl").split("\n") if line]


def test_the_command_line_and_the_prompt() -> None:
    called = command(
        llm_provider="anthropic", model="m", tools="read,bash", thinking="low", args=("-nc",), system_prompt="Be brief."
    )
    options = ("--provider", "anthropic", "--model", "m", "--tools", "read,bash", "--thinking", "low")
    assert called.arguments == (*options, *FIXED, "-nc")
    assert called.stdin == "Be brief.\n\n[[ ## user_query ## ]]\n\nq"
    assert command().arguments == FIXED


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


def test_a_recorded_run_with_three_tools(golden: Callable[[str], str]) -> None:
    answer = Pi().read(events_of(golden, "tools"))
    assert [call for message in answer.messages for call in message.tool_calls] == [
        ToolCall("read", {"path": "note.txt"}, "2 + 2\n", "call_1"),
        ToolCall("write", {"path": "out.txt", "content": "4\n"}, "Successfully wrote 2 bytes to out.txt", "call_2"),
        ToolCall(
            "bash",
            {"command": "ls nowhere"},
            "ls: cannot access 'nowhere': No such file or directory\n\n\nCommand exited with code 2",
            "call_3",
        ),
    ]
    assert answer.messages[-1].content == "All done."
    assert answer.messages[-1].timestamp == "2026-11-21T19:05:11.849Z"
    assert (answer.messages[-1].metadata or {})["model"] == "fake-model"
    assert answer.token_usage == TokenUsage(120, 20)
    assert answer.cost_usd == pytest.approx(4 * 0.00004)
    assert (answer.is_complete, answer.failure) == (True, None)


def test_a_recorded_run_with_tools_called_at_once(golden: Callable[[str], str]) -> None:
    first, last = Pi().read(events_of(golden, "parallel")).messages
    assert [(call.tool, str(call.output)[:5]) for call in first.tool_calls] == [("read", "2 + 2"), ("bash", "ls: c")]
    assert last.content == "All done."


def test_a_recorded_run_with_a_wrong_key_failed(golden: Callable[[str], str]) -> None:
    answer = Pi().read(events_of(golden, "401"))
    assert answer.failure == "401 Incorrect API key provided to the key Bearer sk-fake"


def test_a_recorded_run_that_was_killed_is_not_complete(golden: Callable[[str], str]) -> None:
    answer = Pi().read(events_of(golden, "tool-then-hang"))
    assert (answer.is_complete, len(answer.messages[0].tool_calls)) == (False, 1)


def test_after_retries_of_its_own_the_last_end_counts_and_all_replies_are_paid_for() -> None:
    usage = {"input": 10, "output": 2, "cacheRead": 5, "cacheWrite": 1, "cost": {"total": 0.5}}
    broken, good = reply("", "error", errorMessage="429", usage=usage), reply("4", usage=usage)
    answer = read(told(broken), end(broken), told(good), end(good))
    assert (candidate_answer(answer.messages), answer.failure) == ("4", None)
    assert (answer.token_usage, answer.cost_usd) == (TokenUsage(22, 4, 10), 1)


@pytest.mark.parametrize(
    ("message", "failure"),
    [
        (reply("half", "length"), None),
        (reply("", "error", errorMessage="500 no"), "500 no"),
        (reply("half", "aborted"), "the run was aborted"),
    ],
)
def test_the_reason_of_the_last_message_tells_whether_there_is_an_answer(
    message: dict[str, Any], failure: str | None
) -> None:
    assert read(end(message)).failure == failure


@pytest.mark.parametrize(("reason", "told"), [("stop", "stop"), ("length", "length"), (5, None)])
def test_the_reason_of_the_last_message_is_why_the_model_stopped(reason: Any, told: str | None) -> None:
    assert read(end(reply("first", "toolUse"), reply("half", reason))).finish_reason == told


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
