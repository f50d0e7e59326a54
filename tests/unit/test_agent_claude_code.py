"""Claude Code: its command line, and what its events say."""

from typing import Any

import pytest

from pytest_agentv.model.messages import Message, TokenUsage, ToolCall, candidate_answer
from pytest_agentv.providers.agents.agent import AgentAnswer
from pytest_agentv.providers.agents.claude_code import ClaudeCode

SUCCESS = {"type": "result", "subtype": "success", "is_error": False, "result": "4"}


def said(*blocks: Any, message_id: str | None = "m1", **event: Any) -> dict[str, Any]:
    message = {"id": message_id, "role": "assistant", "model": "claude-x", "content": list(blocks)}
    return {"type": "assistant", "message": message, **event}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def call(call_id: str, name: str = "Bash", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def gave(call_id: str, content: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return {"type": "user", "message": {"role": "user", "content": [block]}}


def read(*events: dict[str, Any]) -> AgentAnswer:
    return ClaudeCode().read(events)


def test_the_blocks_of_a_reply_come_one_by_one_and_are_one_message() -> None:
    events = [said({"type": "thinking", "thinking": "hm"}), said(text("a")), said(text("b")), said(call("c", q=1))]
    answer = read(*events, gave("c", [text("x"), text("y")]), said(text("4")), SUCCESS)
    assert answer.messages == (
        Message("assistant", "a\nb", (ToolCall("Bash", {"q": 1}, "x\ny", "c"),)),
        Message("assistant", "4"),  # the same id, but after a result
    )


def test_replies_without_an_id_are_not_joined() -> None:
    answer = read(said(text("a"), message_id=None), said(text("4"), message_id=None), SUCCESS)
    assert [message.content for message in answer.messages] == ["a", "4"]


def test_a_result_that_is_no_message_yet_is_the_answer() -> None:
    answer = read(said(text("I will.")), said(call("c"), message_id="m2"), gave("c", "x"), SUCCESS)
    assert candidate_answer(answer.messages) == "4"
    assert candidate_answer(read(said(call("c")), SUCCESS | {"result": ""}).messages) == ""


def test_an_image_among_the_results_of_a_tool_is_kept_as_it_is() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}
    (message, _) = read(said(call("c")), gave("c", [text("x"), image]), SUCCESS).messages
    assert message.tool_calls[0].output == [text("x"), image]


def test_messages_of_an_agent_within_the_agent_say_whose_they_are() -> None:
    answer = read(said(call("t", "Task")), said(text("sub"), message_id="m2", parent_tool_use_id="t"), SUCCESS)
    assert [message.metadata for message in answer.messages] == [None, {"parent_tool_use_id": "t"}, None]


def test_tokens_written_to_the_cache_are_input_and_those_read_from_it_are_told_apart() -> None:
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 7}
    assert read(SUCCESS | {"usage": usage}).token_usage == TokenUsage(23, 7, 100)
    assert read(SUCCESS).token_usage is None


def spent(tokens: int, out: int, cost: float = 0.0) -> dict[str, Any]:
    """Return what two models used, in the words of `modelUsage`."""
    small = {"inputTokens": 1, "cacheCreationInputTokens": 2, "cacheReadInputTokens": 4, "outputTokens": 1}
    return {"small": small, "large": {"inputTokens": tokens - 3, "outputTokens": out - 1, "costUSD": cost}}


def turn(tokens: int, out: int, ms: int, cost: float = 0.0, **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": tokens, "output_tokens": out}
    return SUCCESS | {"usage": usage, "duration_ms": ms, "total_cost_usd": cost, **fields}


@pytest.mark.parametrize(
    ("first", "second", "usage"),
    [
        ({}, {}, TokenUsage(90, 15)),
        ({"modelUsage": spent(70, 12)}, {"modelUsage": spent(120, 20)}, TokenUsage(120, 20, 4)),
        (
            {"model_usage_since_last_result": spent(70, 12, 0.5), "modelUsage": spent(870, 112)},
            {"model_usage_since_last_result": spent(50, 8, 0.25), "modelUsage": spent(920, 120)},
            TokenUsage(120, 20, 8),
        ),
    ],
    ids=["old", "by-model", "by-turn"],
)
def test_the_turns_that_background_tasks_start_are_added_up(
    first: dict[str, Any], second: dict[str, Any], usage: TokenUsage
) -> None:
    answer = read(turn(60, 10, 2429, 0.5, **first), said(text("4")), turn(30, 5, 191, 0.75, **second))
    assert (answer.token_usage, answer.cost_usd) == (usage, 0.75)
    assert answer.duration_ms is None, "the time between the turns is in none of them"


@pytest.mark.parametrize("key", ["modelUsage", "model_usage_since_last_result"])
def test_tokens_of_agents_within_the_agent_and_of_a_run_that_was_cut_count(key: str) -> None:
    assert read(turn(60, 10, 1, **{key: spent(90, 15)})).token_usage == TokenUsage(90, 15, 4)
    cut = {"subtype": "error_max_budget_usd", "is_error": True}
    assert read(turn(0, 0, 1, **{key: spent(30, 5)}) | cut).token_usage == TokenUsage(30, 5, 4)


def test_earlier_runs_of_a_conversation_are_no_cost_of_this_one() -> None:
    total = {"total_cost_usd": 0.75, "modelUsage": spent(90, 15, 0.75)}
    answer = read(turn(30, 5, 900) | total | {"model_usage_since_last_result": spent(30, 5, 0.25)})
    assert (answer.token_usage, answer.cost_usd, answer.duration_ms) == (TokenUsage(30, 5, 4), 0.25, 900)
    answer = read(turn(0, 0, 900) | total | {"model_usage_since_last_result": {}})
    assert (answer.token_usage, answer.cost_usd) == (TokenUsage(0, 0), None)


@pytest.mark.parametrize(("subtype", "limit"), [("max_turns", "turns (500)"), ("max_budget_usd", "budget ($503)")])
def test_a_limit_is_no_status_of_the_api(subtype: str, limit: str) -> None:
    result = {"type": "result", "subtype": f"error_{subtype}", "errors": [f"Reached maximum number of {limit}"]}
    assert read(result).failure_kind == "process"


@pytest.mark.scenario("Claude Code stream logging")
@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"subtype": "init", "type": "system"}, "system: init"),
        (said(text("word " * 20)), "assistant: " + ("word " * 20)[:50] + "..."),
        (said(call("c", "Read")), "assistant: tool_use (Read)"),
        (said(text("a"), call("c")), "assistant: a; tool_use (Bash)"),
        (gave("c", "x"), "user: tool_result (c)"),
        ({"type": "user", "message": {"role": "user", "content": "go on"}}, "user: go on"),
        (SUCCESS | {"total_cost_usd": 0.01234, "duration_ms": 1500}, "result: success, $0.0123, 1500ms"),
        (
            SUCCESS | {"permission_denials": [{"tool_name": "Bash"}, {"tool_name": "Write"}]},
            "result: success, $0.0000, 0ms, refused for lack of permission: Bash, Write",
        ),
        ({"type": "rate_limit_event"}, "rate_limit_event"),
    ],
)
def test_events_have_a_line_in_the_log(event: dict[str, Any], line: str) -> None:
    assert ClaudeCode().summarize(event) == line
