"""Codex: its command line, and what its events say."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall, candidate_answer
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers.agents.agent import DEFAULT_SYSTEM_PROMPT, AgentAnswer
from pytest_agentv.providers.agents.codex import Codex
from pytest_agentv.providers.base import ProviderRequest

FIXED = ("--ask-for-approval", "never", "exec", "--json", "--color", "never", "--skip-git-repo-check")
DONE = {"type": "turn.completed", "usage": {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 3}}


def item(kind: str, item_id: str | None = "item_1", event: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{event}", "item": {"id": item_id, "type": kind, **fields}}


def read(*events: dict[str, Any]) -> AgentAnswer:
    return Codex().read(events)


def events_of(golden: Callable[[str], str], name: str) -> Sequence[dict[str, Any]]:
    return [json.loads(line) for line in golden(f"agents/codex-{name}.jsonl").split("\n") if line]


@pytest.mark.scenario("Codex CLI provider")
def test_the_command_line_and_the_prompt() -> None:
    request = ProviderRequest(Prompt("What is 2 + 2?"), "case", guideline_paths=("/a/x.md",), input_paths=("/b/y.txt",))
    command = Codex(args=("-s", "read-only"), model="gpt-5.5").command(request)
    assert command.arguments == (*FIXED, "--model", "gpt-5.5", "-s", "read-only", "-")
    assert command.stdin == (
        f"{DEFAULT_SYSTEM_PROMPT}\n\n"
        "Read each of these guideline files:\n* [x.md](file:///a/x.md).\n"
        "Read each of these input files:\n* [y.txt](file:///b/y.txt).\n"
        "Should one of them not be there, reply with `ERROR: missing-file <filename>` and do nothing else.\n"
        "Once you have read them, follow your system_instructions to answer the user query below.\n\n"
        "[[ ## user_query ## ]]\n\nWhat is 2 + 2?"
    )


def test_without_a_model_the_programs_own_is_used() -> None:
    command = Codex(system_prompt="Be brief.").command(ProviderRequest(Prompt("q"), "case"))
    assert command.arguments == (*FIXED, "-")
    assert command.stdin == "Be brief.\n\n[[ ## user_query ## ]]\n\nq"


@pytest.mark.scenario("Codex CLI provider")
def test_a_recorded_run_with_three_tools(golden: Callable[[str], str]) -> None:
    refused = "ls: cannot access 'nowhere': No such file or directory\n"
    change = {"path": "/home/user/work/out.txt", "kind": "add"}
    calls = (
        ToolCall(
            "command_execution",
            {"command": "/bin/bash -lc 'cat note.txt'"},
            {"output": "2 + 2\n", "exit_code": 0},
            "item_0",
        ),
        ToolCall("file_change", {"changes": [change]}, {"status": "completed"}, "item_1"),
        ToolCall(
            "command_execution",
            {"command": "/bin/bash -lc 'ls nowhere'"},
            {"output": refused, "exit_code": 2},
            "item_2",
        ),
    )
    assert Codex().read(events_of(golden, "tools")) == AgentAnswer(
        messages=(*(Message("assistant", tool_calls=(call,)) for call in calls), Message("assistant", "All done.")),
        token_usage=TokenUsage(120, 20),
        is_complete=True,
    )


def test_a_recorded_run_with_a_wrong_key_failed(golden: Callable[[str], str]) -> None:
    answer = Codex().read(events_of(golden, "401"))
    assert (answer.failure or "").startswith("unexpected status 401 Unauthorized: Incorrect API key provided")
    assert answer.messages == ()


def test_a_recorded_run_that_failed_after_a_tool_keeps_what_was_done(golden: Callable[[str], str]) -> None:
    answer = Codex().read(events_of(golden, "tool-then-500"))
    assert (answer.failure or "").startswith("We’re currently experiencing high demand")
    assert [call.tool for message in answer.messages for call in message.tool_calls] == ["command_execution"]


def test_the_last_message_is_the_answer_and_cached_tokens_are_no_input_twice() -> None:
    answer = read(item("agent_message", "a", text="I will."), item("agent_message", "b", text="4"), DONE)
    assert candidate_answer(answer.messages) == "4"
    assert answer.token_usage == TokenUsage(6, 3, 4)


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


def test_items_without_an_id_do_not_replace_each_other() -> None:
    answer = read(item("agent_message", None, text="a"), item("agent_message", None, text="b"), DONE)
    assert [message.content for message in answer.messages] == ["a", "b"]


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


def test_a_turn_that_fails_after_a_message_has_no_answer() -> None:
    answer = read(
        item("agent_message", text="half"), {"type": "turn.failed", "error": {"message": "incomplete: length"}}
    )
    assert (answer.failure, answer.is_complete) == ("incomplete: length", True)
    assert read({"type": "turn.failed"}).failure == "the turn failed"


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
