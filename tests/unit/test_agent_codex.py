"""Codex: its command line, and what its events say."""

from typing import Any

import pytest

from pytest_agentv.model.messages import Message, ToolCall, candidate_answer
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers.agents.agent import AgentAnswer
from pytest_agentv.providers.agents.codex import Codex

DONE = {"type": "turn.completed", "usage": {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 3}}


def item(kind: str, item_id: str | None = "item_1", event: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{event}", "item": {"id": item_id, "type": kind, **fields}}


def read(*events: dict[str, Any]) -> AgentAnswer:
    return Codex().read(events)


@pytest.mark.parametrize(
    "args", [("resume", "--last"), ("--sandbox", "read-only", Secret("resume"), "0199"), ("fork", "0199")]
)
def test_the_tokens_of_a_conversation_that_goes_on_are_unknown(args: tuple[str | Secret, ...]) -> None:
    answer = Codex(args=args).read([item("agent_message", text="4"), DONE])
    assert (candidate_answer(answer.messages), answer.token_usage) == ("4", None)


def test_an_item_that_is_told_again_keeps_its_place() -> None:
    started = item("command_execution", "a", "started", command="x", aggregated_output="", exit_code=None)
    ended = item("command_execution", "a", command="x", aggregated_output="out", exit_code=0)
    answer = read(started, item("agent_message", "b", text="meanwhile"), ended, DONE)
    assert answer.messages == (
        Message(
            "assistant",
            tool_calls=(ToolCall("command_execution", {"command": "x"}, {"output": "out", "exit_code": 0}, "a"),),
        ),
        Message("assistant", "meanwhile"),
    )


@pytest.mark.parametrize(
    ("fields", "output"),
    [
        (
            {"result": {"content": [{"type": "text", "text": "4"}]}, "error": None},
            {"content": [{"type": "text", "text": "4"}]},
        ),
        ({"result": None, "error": {"message": "no such tool"}}, {"message": "no such tool"}),
    ],
)
def test_the_tool_of_a_server_is_called_by_both_names(fields: dict[str, Any], output: Any) -> None:
    event = item("mcp_tool_call", server="calc", tool="add", arguments={"a": 2}, status="completed", **fields)
    assert read(event, DONE).messages[0].tool_calls == (ToolCall("mcp__calc__add", {"a": 2}, output, "item_1"),)


def test_reasoning_and_warnings_are_no_messages() -> None:
    answer = read(item("reasoning", text="hm"), item("error", "b", message="Model metadata not found"), DONE)
    assert (answer.messages, answer.failure) == ((), None)


def test_an_error_that_passed_is_none_and_one_that_came_last_is_why_it_ended() -> None:
    again = {"type": "error", "message": "Reconnecting... 2/5"}
    assert read(again, item("agent_message", text="4"), DONE).failure is None
    answer = read(item("agent_message", text="4"), again)
    assert (answer.failure, answer.is_complete) == ("Reconnecting... 2/5", False)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"type": "thread.started", "thread_id": "x"}, "thread.started"),
        (item("agent_message", text="It is 4."), "item.completed: agent_message It is 4."),
        (item("command_execution", command="ls", exit_code=2), "item.completed: command_execution ls (exit code 2)"),
        (item("command_execution", command="ls", exit_code=0), "item.completed: command_execution ls"),
        (item("mcp_tool_call", event="started", server="s", tool="add"), "item.started: mcp_tool_call add"),
        (item("file_change"), "item.completed: file_change"),
        ({"type": "error", "message": "Reconnecting..."}, "error: Reconnecting..."),
        ({"type": "turn.failed", "error": {"message": "401"}}, "turn.failed: 401"),
    ],
)
def test_events_have_a_line_in_the_log(event: dict[str, Any], line: str) -> None:
    assert Codex().summarize(event) == line
