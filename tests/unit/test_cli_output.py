import asyncio
import json
import os

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import ABSENT, JsonObject
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall, candidate_answer
from pytest_agentv.model.secrets import Masker, masking
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, require_answer
from pytest_agentv.providers.cli import (
    Cli,
    CliProvider,
    parse_batch_output,
    parse_one_of_batch,
    parse_output,
    report_output,
)
from pytest_agentv.runtime.processes import ProcessResult


def said(content: object, *more: object, **fields: object) -> str:
    return json.dumps({"output_messages": [{"role": "assistant", "content": content, **fields}, *more]})


def answer(content: str) -> str:
    return candidate_answer(parse_output(content).output_messages)


def plain(content: str) -> ProviderResponse:
    return ProviderResponse(output_messages=(Message("assistant", content),))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"text":"x"}', "x"),
        ('{"text":42}', "42"),
        ('{"text":42.0}', "42"),
        ('{"text":1.5}', "1.5"),
        ('{"text":true}', "true"),
        ('{"text":{"a":1}}', '{"a":1}'),
        ('{"text":[1,null,[2,"b"]]}', '[1,null,[2,"b"]]'),
        ('{"text":"x","output_messages":[]}', "x"),
        ('{"text":"x","output_messages":[{"role":"assistant","content":"y"}]}', "y"),
        ('{"text":"x","output_messages":[{"role":"assistant","tool_calls":[{"tool":"t"}]}]}', "x"),
        ('{"text":"x","output_messages":[{"role":"assistant","content":null,"tool_calls":[{"tool":"t"}]}]}', "x"),
        ('{"text":"x","output_messages":[{"role":"user","content":"u"}]}', "x"),
        ('{"text":null,"output_messages":[{"role":"user","content":"u"}]}', ""),
        ('{"text":"x","output_messages":[{"role":"assistant","content":""}]}', ""),
        ('{"text":"x","output_messages":[{"role":"assistant","content":null}]}', "x"),
        (said("x", {"role": "assistant", "content": None}), "x"),
        ('{"output_messages":[{"role":"assistant","content":{"a":[1]}}]}', '{"a":[1]}'),
        ('{"outputMessages":[{"role":"assistant","content":"camel"}]}', "camel"),
        (said([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "ab"),
        (said([{"type": "thinking", "thinking": "t"}, {"type": "output_text", "text": "x"}]), "x"),
        (said([{"type": "text", "value": "as in eval files"}]), "as in eval files"),
        (said([{"type": "text", "text": "x"}, {"type": "tent"}]), '[{"type":"text","text":"x"},{"type":"tent"}]'),
        (said([{"type": "text", "text": 5}]), '[{"type":"text","text":5}]'),
        (said([{"type": "image"}]), '[{"type":"image"}]'),
        (said([]), "[]"),
        (said("x", {"role": "assistant", "content": None, "tool_calls": [{"tool": "t"}]}), "x"),
        ('{"output_messages":[{"role":"assistant","content":"s"}],"outputMessages":[{"role":"assistant"}]}', "s"),
    ],
)
def test_the_answer_of_a_command_that_writes_json(content: str, expected: str) -> None:
    assert answer(content) == expected


NULL = {"role": "assistant", "content": None}
CALLS = {**NULL, "tool_calls": [{"tool": "t"}]}


TOOL = {"role": "tool", "content": "r"}
TRACED = [{"type": "tool_call", "name": "t"}]


@pytest.mark.parametrize(
    ("answer", "is_null"),
    [
        *(
            ({"output_messages": messages}, is_null)
            for messages, is_null in (
                ([NULL], True),
                ([{"role": "user", "content": "u"}, NULL], True),
                ([CALLS, TOOL, NULL], True),
                ([NULL, CALLS], False),
                ([CALLS], False),
                ([{"role": "assistant"}], False),
                ([{"role": "assistant", "content": ""}, NULL], False),
                ([{"role": "tool", "content": None}], False),
            )
        ),
        ({"text": None, "output_messages": [], "trace": TRACED}, False),
        ({"output_messages": [NULL], "trace": TRACED}, False),
        ({"text": None, "trace": [{"type": "message", "text": "x"}]}, True),
        ({"output_messages": [NULL], "trace": []}, True),
        ({"output_messages": [CALLS, TOOL, NULL], "trace": TRACED}, True),
    ],
)
@pytest.mark.parametrize("is_batch", [False, True])
def test_null_is_no_answer_unless_it_stands_beside_calls(answer: JsonObject, is_null: bool, is_batch: bool) -> None:
    content = json.dumps({"id": "a", **answer})
    response = require_answer(parse_batch_output(content, ["a"])[0] if is_batch else parse_output(content))

    assert candidate_answer(response.output_messages) == ""
    assert (response.error_kind == "no_answer", response.error is not None) == (is_null, is_null)


@pytest.mark.parametrize(
    "content",
    [
        *(
            "",
            "plain text\n",
            "42",
            "[1,2]",
            '"text"',
            "{broken",
            '{"text": NaN}',
            '{"text":"x"} trailing',
            "[" * 100_000,
        ),
        '{"foo":1,"token_usage":{"input":1,"output":2}}',
        '{"output_messages":[],"cost_usd":1}',
        '{"trace":[{"type":"tool_call","name":"t"}]}',
        '{"text":"x","output_messages":{"role":"assistant"}}',
        '{"text":"x","output_messages":[{"role":"assistant","metadata":[]}]}',
        '{"text":' + "9" * 5000 + "}",
        *(
            data % ("[" * depth + "1" + "]" * depth)
            for depth in (200, 480, 900, 100_000)
            for data in ('{"text": %s}', '{"text": "x", "trace": [{"type": "tool_call", "input": %s}]}')
        ),
    ],
    ids=lambda content: content[:20],
)
def test_what_is_not_the_shape_is_the_answer_as_it_stands(content: str) -> None:
    assert parse_output(content).replace(warnings=()) == plain(content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (said("x", tool_calls=[{"name": "z"}]), "output_messages.0.tool_calls.0.tool: Field required"),
        ('{"text":"x","trace":{}}', "trace: Input should be a valid list"),
        ('{"output_messages": [{"content": "x"}]}', "output_messages.0.role: Field required"),
        ('{"outputMessages": 5}', "outputMessages: Input should be a valid list"),
        ('{"text":"x","cost_usd":NaN}', "NaN is no JSON"),
    ],
)
def test_an_answer_that_was_meant_to_be_the_shape_is_warned_of(content: str, reason: str) -> None:
    assert parse_output(content).warnings == (f"the answer is taken as a plain text: {reason}",)


COUNTS = "the numbers 'input' and 'output'"


@pytest.mark.scenario("Metrics schema validation")
@pytest.mark.parametrize(
    ("metrics", "warning"),
    [
        ('"cost_usd":"1"', 'the answer\'s cost_usd is "1" and was left out: expected a number'),
        ('"costUsd":[1]', "the answer's cost_usd is [1] and was left out: expected a number"),
        ('"duration_ms":true', "the answer's duration_ms is true and was left out: expected a number"),
        *(
            (f'"token_usage":{usage}', f"the answer's token_usage is {usage} and was left out: expected {COUNTS}")
            for usage in ('{"input":1}', '{"input":"1","output":2}', '{"input":true,"output":2}', '"many"', "[]")
        ),
    ],
)
def test_a_metric_of_a_wrong_type_is_left_out_and_the_answer_kept(metrics: str, warning: str) -> None:
    response = parse_output(f'{{"text":"x",{metrics}}}')

    assert response == plain("x").replace(warnings=(warning,))


def test_a_secret_in_a_metric_is_masked_before_the_text_is_cut() -> None:
    secret = "sk-1234567890abcdefghij"
    with masking(Masker([secret])):
        (warning,) = parse_output(json.dumps({"text": "x", "cost_usd": "." * 70 + secret})).warnings

    assert "sk-" not in warning


@pytest.mark.scenario("Metrics schema validation")
def test_a_wrong_count_or_duration_goes_alone() -> None:
    usage = {"input": 1, "output": 2, "cached": "many"}
    call = {"tool": "t", "duration_ms": "5"}
    content = json.dumps({"output_messages": [{"role": "assistant", "tool_calls": [call]}], "token_usage": usage})

    response = parse_output(content)

    assert response.output_messages == (Message("assistant", tool_calls=(ToolCall("t"),)),)
    assert response.token_usage == TokenUsage(1, 2)
    assert response.warnings == (
        'the answer\'s duration_ms is "5" and was left out: expected a number',
        'the answer\'s cached is "many" and was left out: expected a number',
    )


@pytest.mark.scenario("ToolCall with optional trace fields")
@pytest.mark.scenario("OutputMessage with optional metadata")
def test_messages_and_tool_calls_are_read_with_all_their_fields() -> None:
    call = {"tool": "searchDocs", "input": {"aKey": "t"}, "output": None, "id": "call_123", "extra": 1}
    more = {"timestamp": "2025-01-01T00:00:00Z", "durationMs": 12}
    fields = {"name": "n", "timestamp": "2025-01-01T00:00:00Z", "metadata": {"latencyMs": 150}}
    calls = {"role": "assistant", "toolCalls": [{**call, **more}, {"tool": "b"}]}

    first = ToolCall("searchDocs", {"aKey": "t"}, None, "call_123", "2025-01-01T00:00:00Z", 12)
    assert parse_output(said("response", calls, **fields)).output_messages == (
        Message("assistant", "response", (), "n", "2025-01-01T00:00:00Z", {"latencyMs": 150}),
        Message("assistant", ABSENT, (first, ToolCall("b"))),
    )


def result(stdout: str, stderr: str) -> ProcessResult:
    return ProcessResult(1, stdout, stderr, timed_out=False, overflowed=False, duration_ms=1)


def test_a_report_prefers_standard_error_and_keeps_the_end_of_a_long_one() -> None:
    assert report_output(result("out\n", " err\n")) == "err"
    assert report_output(result("out\n", " \n")) == "out"
    assert report_output(result("", "x" * 500 + "y" * 2000)) == "[… 500 characters left out] " + "y" * 2000


@pytest.mark.parametrize(
    ("said", "first"),
    [("a\nb", "b\n"), ("a\n b \n  ^", "b\n"), ("\na\n", ""), ("--\na\n==", ""), ("--\n==", ""), ("", "")],
)
def test_the_last_line_with_a_word_comes_first_where_several_have_one(said: str, first: str) -> None:
    assert report_output(result("", said)) == first + said.strip()


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ('{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}\n', "one"),
        ('{"id": "a", "text": "one"}', "one"),
        ('{"id": "chat-1", "text": "hello"}', "hello"),
        ('{"text": "hello"}', "hello"),
        ("hello\nyou", "hello\nyou"),
        ('[{"id": "chat-1"}]', '[{"id": "chat-1"}]'),
        ('["a"]\n5', '["a"]\n5'),
        ('{"id": "b", "text": "two"}\n{"id": "c", "text": "three"}', "Error: Batch output missing id 'a'"),
        ('{"id": "b", "text": "two"}', "Error: Batch output missing id 'a'"),
    ],
)
def test_a_command_for_batches_that_is_run_for_one_case_may_answer_all(content: str, answer: str) -> None:
    assert candidate_answer(parse_one_of_batch(content, "a", {"a", "b", "c"}).output_messages) == answer


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('loading\n{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}', "line 1: not JSON: Expecting value"),
        ('{"id": "a", "text": "one"}\n{"id": "a", "text": "two"}', "line 2: the id 'a' was there before"),
        ('[{"id": "a", "text": "one"}, {"id": "b", "text": "two"}]', "line 1: expected a JSON object"),
        ('{"id": "b", "text": "two"}\n{"id": "a", "trace": "x"}', "line 2: trace"),
    ],
)
def test_answers_of_all_cases_that_cannot_be_read_are_not_the_answer_of_one(content: str, message: str) -> None:
    response = parse_one_of_batch(content, "a", {"b", "c"})

    assert (response.error or "").startswith(f"CLI batch output, {message}")


ENVIRONMENT = {"PATH": os.environ["PATH"]}


def failure(template: str, *requests: ProviderRequest, limit: float | None = None) -> str:
    settings = Cli(command_template=template, cwd="/", timeout_seconds=limit)
    provider = CliProvider("agent", settings, ENVIRONMENT)
    with pytest.raises(ProviderError) as caught:
        asyncio.run(provider.invoke(*requests) if len(requests) == 1 else provider.invoke_batch(requests))
    return str(caught.value)


def request(seconds: float | None, question: str = "q") -> ProviderRequest:
    return ProviderRequest(Prompt(question), "case", timeout_seconds=seconds)


def test_the_shorter_limit_holds_and_a_batch_may_take_as_long_as_its_requests_together() -> None:
    for own, run in ((0.3, 50.0), (50.0, 0.3), (None, 0.3)):
        assert failure("exec sleep 1000", request(run), limit=own) == "CLI provider timed out after 0.3s"
    assert failure("exec sleep 1000", request(0.2), request(0.3)) == "CLI provider timed out after 0.5s"
