"""Claude Code: its command line, and what its events say."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.model.base import ABSENT
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall, candidate_answer
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers.agents.agent import DEFAULT_SYSTEM_PROMPT, AgentAnswer
from pytest_agentv.providers.agents.claude_code import ClaudeCode
from pytest_agentv.providers.base import ProviderRequest

FIXED = ("-p", "--output-format", "stream-json", "--verbose")
SUCCESS = {"type": "result", "subtype": "success", "is_error": False, "result": "4"}


def request(question: str = "What is 2 + 2?", **fields: Any) -> ProviderRequest:
    return ProviderRequest(Prompt(question), "case").replace(**fields)


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


def events_of(golden: Callable[[str], str], name: str) -> Sequence[dict[str, Any]]:
    return [json.loads(line) for line in golden(f"agents/claude-{name}.jsonl").split("\n") if line]


@pytest.mark.scenario("Claude Code provider invocation")
@pytest.mark.scenario("Claude Code system prompt configuration")
def test_by_default_our_words_are_added_to_the_programs_own_system_prompt() -> None:
    command = ClaudeCode().command(request())
    assert command.arguments == (*FIXED, "--append-system-prompt", DEFAULT_SYSTEM_PROMPT)
    assert command.stdin == "[[ ## user_query ## ]]\n\nWhat is 2 + 2?"


@pytest.mark.scenario("Claude Code model configuration")
@pytest.mark.scenario("Claude Code system prompt configuration")
@pytest.mark.scenario("Claude Code custom arguments")
@pytest.mark.parametrize("model", ["sonnet", "claude-sonnet-4-5-20250929"])
def test_model_system_prompt_and_arguments_of_the_target_are_passed_on(model: str) -> None:
    arguments = ("--allowedTools", "Bash", Secret("sk-secret"))
    settings = ClaudeCode(args=arguments, model=model, system_prompt="Be brief.")
    command = settings.command(request())
    assert command.arguments == (*FIXED, "--model", model, "--system-prompt", "Be brief.", *arguments)


def test_the_system_prompt_of_a_judge_comes_before_that_of_the_target() -> None:
    settings = ClaudeCode(system_prompt="Be brief.")
    assert "You are a judge." in settings.command(request(system_prompt="You are a judge.")).arguments


@pytest.mark.scenario("Claude Code input files")
def test_the_folders_of_files_are_opened_to_the_program_each_once() -> None:
    asked = request(guideline_paths=("/a/x.md", "/a/y.md"), input_paths=("/b c/z.md",))
    command = ClaudeCode().command(asked)
    assert command.arguments[-4:] == ("--add-dir", "/a", "--add-dir", "/b c")
    assert "* [z.md](file:///b c/z.md)." in command.stdin


def test_the_program_does_not_know_that_it_runs_inside_another_one_of_its_kind() -> None:
    command = ClaudeCode().command(request())
    assert command.environment == {"CLAUDECODE": None, "CLAUDE_CODE_ENTRYPOINT": None}
    assert command.defaults.keys() == {"CLAUDE_CODE_MAX_RETRIES", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"}


@pytest.mark.scenario("Claude Code JSONL output parsing")
def test_a_recorded_run_with_three_tools(golden: Callable[[str], str]) -> None:
    work = "/home/user/work"
    answer = ClaudeCode().read(events_of(golden, "tools"))
    assert answer == AgentAnswer(
        messages=(
            Message(
                "assistant",
                tool_calls=(ToolCall("Read", {"file_path": f"{work}/note.txt"}, "1\t2 + 2\n2\t", "call_1"),),
            ),
            Message(
                "assistant",
                tool_calls=(
                    ToolCall(
                        "Write",
                        {"file_path": f"{work}/out.txt", "content": "4\n"},
                        f"File created successfully at: {work}/out.txt (file state is current in your context — no "
                        "need to Read it back)",
                        "call_2",
                    ),
                ),
            ),
            Message(
                "assistant",
                tool_calls=(
                    ToolCall(
                        "Bash",
                        {"command": "ls nowhere", "description": "List"},
                        "Exit code 2\nls: cannot access 'nowhere': No such file or directory",
                        "call_3",
                    ),
                ),
            ),
            Message("assistant", "All done."),
        ),
        token_usage=TokenUsage(120, 20),
        cost_usd=0.0011,
        duration_ms=309,
        is_complete=True,
    )


def test_a_recorded_run_with_tools_called_at_once(golden: Callable[[str], str]) -> None:
    first, last = ClaudeCode().read(events_of(golden, "parallel")).messages
    assert [(call.tool, call.output) for call in first.tool_calls] == [
        ("Read", "1\t2 + 2\n2\t"),
        ("Bash", "Exit code 2\nls: cannot access 'nowhere': No such file or directory"),
    ]
    assert last.content == "All done."


@pytest.mark.scenario("Claude Code error handling")
def test_a_recorded_run_with_a_wrong_key_failed_and_what_the_program_made_up_is_no_message(
    golden: Callable[[str], str],
) -> None:
    answer = ClaudeCode().read(events_of(golden, "401"))
    assert answer.failure == "Failed to authenticate. API Error: 401 Incorrect API key provided to the key sk-fake"
    assert (answer.failure_kind, answer.messages) == ("auth", ())


def test_a_recorded_run_that_was_killed_is_not_complete(golden: Callable[[str], str]) -> None:
    answer = ClaudeCode().read(events_of(golden, "tool-then-hang"))
    assert not answer.is_complete
    assert [call.tool for message in answer.messages for call in message.tool_calls] == ["Bash"]


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


def test_a_tool_whose_result_never_came_has_no_output() -> None:
    (message,) = read(said(call("c"))).messages
    assert message.tool_calls[0].output is ABSENT


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


@pytest.mark.parametrize(
    ("result", "failure"),
    [
        ({"subtype": "error_max_turns", "errors": ["Reached 1 turn"]}, "error_max_turns: Reached 1 turn"),
        ({"subtype": "error_max_budget_usd", "errors": [None, {}]}, "error_max_budget_usd"),
        ({"subtype": "success", "is_error": True, "result": "API Error"}, "API Error"),
        ({"subtype": "success", "is_error": True, "result": ""}, "success"),
        ({}, "it said that it failed"),
    ],
)
def test_a_result_that_is_no_success_says_why(result: dict[str, Any], failure: str) -> None:
    answer = read(said(text("half an answer")), {"type": "result", **result})
    assert (answer.failure, answer.is_complete) == (failure, True)


@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (403, "auth"), (429, "rate_limit"), (529, "network")])
def test_the_status_of_the_api_tells_the_kind_of_failure(status: int, kind: str) -> None:
    assert read(SUCCESS | {"is_error": True, "api_error_status": status}).failure_kind == kind
    assert read(SUCCESS | {"is_error": True, "api_error_status": None}).failure_kind is None


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
