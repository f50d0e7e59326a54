"""What the events of all coding agents go through: odd ones are passed over, and tell of failures in many words."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall, candidate_answer
from pytest_agentv.model.secrets import Masker, Secret, masking
from pytest_agentv.providers.agent_programs import ClaudeCode, Codex, Pi
from pytest_agentv.providers.agents import (
    AgentAnswer,
    AgentCommand,
    CodingAgent,
    as_number,
    guess_kind,
    joined_text,
    parse_event,
    result_output,
    shorten,
    summarize,
)
from pytest_agentv.providers.base import ProviderRequest

PROGRAMS: dict[str, CodingAgent] = {"claude": ClaudeCode(), "codex": Codex(), "pi": Pi()}
RECORDED = Path(__file__).parents[1] / "golden" / "agents"


def recorded(name: str) -> list[dict[str, Any]]:
    """Return the events of all recorded runs of a program."""
    paths = sorted(RECORDED.glob(f"{name}-*.jsonl"))
    assert paths
    return [json.loads(line) for path in paths for line in path.read_text("utf-8").split("\n") if line]


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just(10**400) | st.just([[]])
)


def mutated(value: Any, draw: st.DrawFn) -> Any:
    """Return JSON data some of whose parts are gone or something else."""
    if draw(st.integers(0, 30)) == 0:
        return draw(SCALARS)
    if isinstance(value, dict):
        return {key: mutated(item, draw) for key, item in value.items() if draw(st.integers(0, 30))}
    if isinstance(value, list):
        return [mutated(item, draw) for item in value]
    return value


@st.composite
def damaged(draw: st.DrawFn, name: str) -> list[dict[str, Any]]:
    """Return recorded events of which some are damaged, left out or told in another order."""
    chosen = draw(st.lists(st.sampled_from(recorded(name)), max_size=6))
    return [event for event in (mutated(event, draw) for event in chosen) if isinstance(event, dict)]


def take(name: str, events: list[dict[str, Any]]) -> None:
    """Read events as they come through a pipe."""
    read = [event for event in (parse_event(json.dumps(event).encode()) for event in events) if event is not None]
    answer = PROGRAMS[name].read(read)
    json.dumps([message.to_plain() for message in answer.messages])
    for event in read:
        assert summarize(event)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_damage_to_recorded_events_breaks_the_reading(name: str) -> None:
    given(damaged(name))(lambda events: take(name, events))()


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_recorded_events_are_read(name: str) -> None:
    take(name, recorded(name))


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3),
        (0.5, 0.5),
        (None, 0),
        ("3", 0),
        (True, 0),
        ([], 0),
        (math.nan, 0),
        (math.inf, 0),
        (10**400, 0),
        (1e300, 0),
    ],
)
def test_what_is_no_number_to_compute_with_is_0(value: Any, number: float) -> None:
    assert as_number(value) == number


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("API Error: 401 no", "auth"),
        ("unexpected status 403 Forbidden", "auth"),
        ("exceeded retry limit, last status: 429", "rate_limit"),
        ("500 the server says no", "network"),
        ("529 {}", "network"),
        ("Not logged in · Please run /login", "auth"),
        ("Missing environment variable: `KEY`", "auth"),
        ("Rate limit reached", "rate_limit"),
        ("Unable to connect to API (ConnectionRefused)", "network"),
        ("stream disconnected before completion", "network"),
        ("stream disconnected before completion: Incomplete response returned, reason: content_filter", "no_answer"),
        ("stream disconnected before completion: Incomplete response returned, reason: max_tokens", "no_answer"),
        ("terminated: other side closed (UND_ERR_SOCKET)", "network"),
        ("read ECONNRESET", "network"),
        ("socket hang up", "network"),
        ("We’re currently experiencing high demand", "network"),
        ("Request timed out", "network"),
        ("error: unknown option '--x'", "process"),
        ("SyntaxError at main.js:512:34", "process"),
        ("", "process"),
    ],
)
def test_the_words_of_a_program_tell_the_kind_of_its_failure(text: str, kind: str) -> None:
    assert guess_kind(text) == kind


def test_texts_are_cut_after_their_secrets_are_hidden() -> None:
    with masking(Masker(["sk-secret  with blanks"])):
        line = shorten("x" * 40 + " sk-secret  with blanks and more", 50)
    assert line == "x" * 40 + " *** and m..."
    assert shorten("a\n b", 50) == "a b"


def test_the_text_of_a_message_is_that_of_its_blocks() -> None:
    assert joined_text("a") == "a"
    assert joined_text([{"type": "text", "text": "a"}, {"type": "x"}, {"type": "text", "text": "b"}, 3]) == "a\nb"
    assert joined_text([{"type": "x"}]) is None
    assert joined_text(None) is None


@pytest.mark.parametrize("content", [None, "a", [], [{"type": "image"}], 3])
def test_what_a_tool_gave_is_kept_as_it_is_unless_it_is_all_text(content: Any) -> None:
    assert result_output(content) == content
    assert result_output([{"type": "text", "text": "a"}]) == "a"


# Claude Code

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


def test_a_result_that_is_no_message_yet_is_the_answer() -> None:
    answer = read(said(text("I will.")), said(call("c"), message_id="m2"), gave("c", "x"), SUCCESS)
    assert candidate_answer(answer.messages) == "4"
    assert candidate_answer(read(said(call("c")), SUCCESS | {"result": ""}).messages) == ""


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


# Codex

DONE = {"type": "turn.completed", "usage": {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 3}}


def item(kind: str, item_id: str | None = "item_1", event: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{event}", "item": {"id": item_id, "type": kind, **fields}}


def read_codex(*events: dict[str, Any]) -> AgentAnswer:
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
    answer = read_codex(started, item("agent_message", "b", text="meanwhile"), ended, DONE)
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
    assert read_codex(event, DONE).messages[0].tool_calls == (ToolCall("mcp__calc__add", {"a": 2}, output, "item_1"),)


def test_an_error_that_passed_is_none_and_one_that_came_last_is_why_it_ended() -> None:
    again = {"type": "error", "message": "Reconnecting... 2/5"}
    assert read_codex(again, item("agent_message", text="4"), DONE).failure is None
    answer = read_codex(item("agent_message", text="4"), again)
    assert (answer.failure, answer.is_complete) == ("Reconnecting... 2/5", False)


# pi

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


def read_pi(*events: dict[str, Any]) -> AgentAnswer:
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
    answer = read_pi(told(broken), end(broken), told(good), end(good))
    assert (candidate_answer(answer.messages), answer.failure) == ("4", None)
    assert (answer.token_usage, answer.cost_usd) == (TokenUsage(22, 4, 10), 1)


@pytest.mark.scenario("Claude Code stream logging")
@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"type": "system", "subtype": "init"}, 'system: {"subtype": "init"}'),
        ({"type": "turn.started"}, "turn.started"),
        ({"type": "item.completed", "text": "It\nis 4."}, 'item.completed: {"text": "It\\nis 4."}'),
        (said(text("word " * 90)), f'{{"type": "text", "text": "{"word " * 20}'),
    ],
)
def test_events_have_a_line_in_the_log(event: dict[str, Any], line: str) -> None:
    assert line in summarize(event)
    assert len(summarize(event)) < 330
