import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import ABSENT, Json, JsonObject
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall, TraceEvent, candidate_answer
from pytest_agentv.model.secrets import Masker, masking
from pytest_agentv.providers.base import ProviderResponse, require_answer
from pytest_agentv.providers.cli_output import (
    describe_exit,
    parse_batch_output,
    parse_one_of_batch,
    parse_output,
    report_output,
)
from pytest_agentv.providers.wire import WireError, parse_response
from pytest_agentv.runtime.processes import ProcessResult


def said(content: object, *more: object) -> str:
    return json.dumps({"output_messages": [{"role": "assistant", "content": content}, *more]})


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


def test_a_text_of_null_is_no_answer() -> None:
    response = parse_output('{"text":null,"cost_usd":1}')

    assert (response.output_messages, response.cost_usd) == (None, 1)
    assert (response.error, response.error_kind) == ("the target gave no answer: its 'text' is null", "no_answer")


NULL = {"role": "assistant", "content": None}
CALLS = {**NULL, "tool_calls": [{"tool": "t"}]}


@pytest.mark.parametrize(
    ("messages", "is_null"),
    [
        ([NULL], True),
        ([{"role": "user", "content": "u"}, NULL], True),
        ([CALLS, {"role": "tool", "content": "r"}, NULL], True),
        ([NULL, CALLS], False),
        ([CALLS], False),
        ([{"role": "assistant"}], False),
        ([{"role": "assistant", "content": ""}, NULL], False),
        ([{"role": "tool", "content": None}], False),
        ([], False),
    ],
)
def test_null_is_no_answer_unless_it_stands_beside_tool_calls(messages: list[JsonObject], is_null: bool) -> None:
    response = parse_response({"output_messages": messages})

    assert candidate_answer(response.output_messages) == ""
    assert require_answer(response).error_kind == ("no_answer" if is_null else "crash")
    assert (require_answer(response).error is not None) is is_null


TRACED = [{"type": "tool_call", "name": "t"}]


@pytest.mark.parametrize(
    ("answer", "is_null"),
    [
        ({"text": None, "trace": TRACED}, False),
        ({"text": None, "output_messages": [], "trace": TRACED}, False),
        ({"output_messages": [NULL], "trace": TRACED}, False),
        ({"text": None, "trace": [{"type": "message", "text": "x"}]}, True),
        ({"output_messages": [NULL], "trace": []}, True),
        ({"output_messages": [CALLS, {"role": "tool", "content": "r"}, NULL], "trace": TRACED}, True),
    ],
)
@pytest.mark.parametrize("is_batch", [False, True])
def test_null_beside_the_calls_of_a_trace_is_an_empty_answer(answer: JsonObject, is_null: bool, is_batch: bool) -> None:
    content = json.dumps({"id": "a", **answer})
    response = require_answer(parse_batch_output(content, ["a"])[0] if is_batch else parse_output(content))

    assert candidate_answer(response.output_messages) == ""
    assert (response.error_kind == "no_answer", response.error is not None) == (is_null, is_null)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "plain text\n",
        "42",
        "[1,2]",
        '"text"',
        "{broken",
        '{"text": NaN}',
        '{"text":"x"} trailing',
        '{"foo":1,"token_usage":{"input":1,"output":2}}',
        '{"output_messages":[],"cost_usd":1}',
        '{"trace":[{"type":"tool_call","name":"t"}]}',
        '{"text":"x","output_messages":[{"role":"assistant","tool_calls":[{"name":"z"}]}]}',
        '{"text":"x","output_messages":{"role":"assistant"}}',
        '{"text":"x","output_messages":[{"content":"no role"}]}',
        '{"text":"x","output_messages":[{"role":"assistant","metadata":[]}]}',
        '{"text":"x","trace":{}}',
        "[" * 100_000,
        '{"text":' + "9" * 5000 + "}",
    ],
)
def test_what_is_not_the_shape_is_the_answer_as_it_stands(content: str) -> None:
    assert parse_output(content).replace(warnings=()) == plain(content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            '{"text":"x","output_messages":[{"role":"assistant","tool_calls":[{"name":"z"}]}]}',
            "output_messages.0.tool_calls.0.tool: Field required",
        ),
        ('{"text":"x","trace":{}}', "trace: Input should be a valid list"),
        ('{"output_messages": [{"content": "x"}]}', "output_messages.0.role: Field required"),
        ('{"outputMessages": 5}', "outputMessages: Input should be a valid list"),
        ('{"text":"x","cost_usd":NaN}', "NaN is no JSON"),
    ],
)
def test_an_answer_that_was_meant_to_be_the_shape_is_warned_of(content: str, reason: str) -> None:
    assert parse_output(content).warnings == (f"the answer is taken as a plain text: {reason}",)


@pytest.mark.parametrize(
    "content", ["NaN", '{"a":NaN}', '{"foo":{}}', "[1]", "text: {", '{"trace":1}', '{"text":"x"', "5"]
)
def test_a_text_that_only_looks_like_json_is_not_warned_of(content: str) -> None:
    assert parse_output(content) == plain(content)
    assert parse_output(content).warnings == ()


@pytest.mark.scenario("Metrics schema validation")
@pytest.mark.parametrize(
    ("metrics", "warning"),
    [
        ('"cost_usd":"1"', 'the answer\'s cost_usd is "1" and was left out: expected a number'),
        ('"costUsd":[1]', "the answer's cost_usd is [1] and was left out: expected a number"),
        ('"duration_ms":true', "the answer's duration_ms is true and was left out: expected a number"),
        *(
            (
                f'"token_usage":{usage}',
                f"the answer's token_usage is {usage} and was left out: expected the numbers 'input' and 'output'",
            )
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


def test_metrics_come_along_and_are_not_judged_here() -> None:
    content = (
        '{"text":"x","cost_usd":-1,"duration_ms":5,"token_usage":{"input":1,"output":2.5,"cached":3,"more":"ignored"}}'
    )

    response = parse_output(content)

    assert response.token_usage == TokenUsage(1, 2.5, 3)
    assert response.cost_usd == -1
    assert response.duration_ms == 5


def test_metrics_may_be_written_in_camel_case() -> None:
    response = parse_output('{"text":"x","costUsd":0.5,"durationMs":7,"tokenUsage":{"input":1,"output":2}}')

    assert (response.cost_usd, response.duration_ms, response.token_usage) == (0.5, 7, TokenUsage(1, 2))


def test_null_says_that_nothing_was_reported() -> None:
    content = '{"text":"x","cost_usd":null,"token_usage":null,"output_messages":null,"trace":null,"duration_ms":null}'

    assert parse_output(content) == plain("x")


@pytest.mark.scenario("ToolCall with optional trace fields")
def test_tool_calls_are_read_with_all_their_fields() -> None:
    call = {"tool": "searchDocs", "input": {"aKey": "t"}, "output": None, "id": "call_123", "extra": 1}
    more = {"timestamp": "2025-01-01T00:00:00Z", "durationMs": 12}
    content = json.dumps({"output_messages": [{"role": "assistant", "toolCalls": [{**call, **more}, {"tool": "b"}]}]})

    (message,) = parse_output(content).output_messages or ()

    assert message.content is ABSENT
    assert message.tool_calls == (
        ToolCall("searchDocs", {"aKey": "t"}, None, "call_123", "2025-01-01T00:00:00Z", 12),
        ToolCall("b"),
    )


@pytest.mark.scenario("OutputMessage with optional metadata")
def test_messages_are_read_with_all_their_fields() -> None:
    fields = {"name": "n", "timestamp": "2025-01-01T00:00:00Z", "metadata": {"latencyMs": 150}}
    content = json.dumps({"output_messages": [{"role": "assistant", "content": "response", **fields}]})

    assert parse_output(content).output_messages == (
        Message("assistant", "response", (), "n", "2025-01-01T00:00:00Z", {"latencyMs": 150}),
    )


def test_a_trace_is_a_list_of_events() -> None:
    event = {"type": "tool_call", "name": "t", "input": None, "id": "1", "metadata": {"a": 1}, "text": "x"}
    content = json.dumps({"text": "x", "trace": [event, {"type": "error"}], "traceRef": "trace.jsonl"})

    response = parse_output(content)

    assert response.trace == (
        TraceEvent("tool_call", id="1", name="t", input=None, text="x", metadata={"a": 1}),
        TraceEvent("error"),
    )
    assert response.trace_ref == "trace.jsonl"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "Input should be an object"),
        ({"trace_ref": 1}, "trace_ref: Input should be a valid string"),
        ({"cost_usd": "1", "trace": 1, "trace_ref": 1}, "trace: Input should be a valid list (and 1 more)"),
    ],
)
def test_a_wrong_shape_is_told_with_its_place(data: Json, message: str) -> None:
    with pytest.raises(WireError) as caught:
        parse_response(data)

    assert str(caught.value) == message


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["text", "output_messages", "id", "x"]), inner),
    )
)
def test_any_json_gives_an_answer(value: Json) -> None:
    content = json.dumps(value)

    assert parse_output(content).output_messages


@given(st.text())
def test_any_text_gives_an_answer(content: str) -> None:
    assert parse_output(content).output_messages


def test_a_batch_is_matched_by_id() -> None:
    content = '{"id":"b1","text":{"x":1}}\n\n{"id":"zzz","text":"no"}\r\n{"id":"b3","text":"c","cost_usd":2}\n'

    first, second, third = parse_batch_output(content, ["b1", "b2", "b3"])

    assert candidate_answer(first.output_messages) == '{"x":1}'
    assert first.error is None
    assert candidate_answer(second.output_messages) == "Error: Batch output missing id 'b2'"
    assert second.error == "Batch output missing id 'b2'"
    assert candidate_answer(third.output_messages) == "c"
    assert third.cost_usd == 2


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("", ""),
        (', "text": null', ""),
        (', "output_messages": []', ""),
        (', "error": "quota"', ": quota"),
        (', "error": {"message": "quota"}', ": quota"),
    ],
)
def test_a_batch_line_without_an_answer_is_an_error(keys: str, said: str) -> None:
    (response,) = parse_batch_output(f'{{"id":"a","duration_ms":1{keys}}}', ["a"])

    assert response.error == f"Batch output has neither 'text' nor 'output_messages' for id 'a'{said}"
    assert response.error_kind == "no_answer"
    assert response.duration_ms == 1


def test_null_is_no_answer_in_a_batch_either() -> None:
    null = '"output_messages":[{"role":"assistant","content":null}]'
    beside, alone = parse_batch_output(f'{{"id":"a","text":"x",{null}}}\n{{"id":"b",{null}}}', ["a", "b"])

    assert (candidate_answer(beside.output_messages), require_answer(beside).error) == ("x", None)
    assert require_answer(alone).error == "the target gave no answer: the content of its last message is null"


def test_a_batch_line_with_an_error_beside_the_answer_has_an_answer() -> None:
    (response,) = parse_batch_output('{"id":"a","text":"x","error":null}', ["a"])

    assert (candidate_answer(response.output_messages), response.error) == ("x", None)


def test_a_line_separator_within_a_text_splits_no_batch_line() -> None:
    (response,) = parse_batch_output('{"id":"a","text":"x\u2028y\x85z"}', ["a"])

    assert candidate_answer(response.output_messages) == "x\u2028y\x85z"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\n{x", "line 2: not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("NaN", "line 1: not JSON: NaN is no JSON"),
        ("[1]", "line 1: expected a JSON object"),
        ('{"text":"x"}', "line 1: expected a string 'id', the eval id it answers"),
        ('{"id":1,"text":"x"}', "line 1: expected a string 'id', the eval id it answers"),
        ('{"id":"a","text":"x"}\n{"id":"a","text":"y"}', "line 2: the id 'a' was there before"),
        ('{"id":"a","output_messages":[{}]}', "line 1: output_messages.0.role: Field required"),
        ("[" * 100_000, "line 1: not JSON: it is nested too deeply"),
    ],
)
def test_a_batch_line_that_cannot_be_used_is_an_error_with_its_number(content: str, message: str) -> None:
    with pytest.raises(ProviderError) as caught:
        parse_batch_output(content, ["a"])

    assert str(caught.value) == f"CLI batch output, {message}"
    assert caught.value.kind == "process"


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
    ("code", "text"),
    [
        (3, "exit code 3"),
        (-9, "exit code unknown: killed by SIGKILL"),
        (-64, "exit code unknown: killed by SIGRTMAX"),
        (-99, "exit code unknown: killed by signal 99"),
    ],
)
def test_an_exit_is_described(code: int, text: str) -> None:
    assert describe_exit(code) == text


@pytest.mark.parametrize("depth", [200, 480, 900, 100_000])
@pytest.mark.parametrize("data", ['{"text": %s}', '{"text": "x", "trace": [{"type": "tool_call", "input": %s}]}'])
def test_an_answer_that_is_nested_too_deeply_is_a_text(data: str, depth: int) -> None:
    content = data % ("[" * depth + "1" + "]" * depth)

    assert parse_output(content).replace(warnings=()) == plain(content)


def test_an_answer_may_be_nested_as_deeply_as_answers_are() -> None:
    content = '{"text": %s}' % ("[" * 150 + "1" + "]" * 150)

    assert answer(content) == "[" * 150 + "1" + "]" * 150


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ('{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}\n', "one"),
        ('{"id": "a", "text": "one"}', "one"),
        ('{\n "id": "a",\n "text": "one"\n}', "one"),
        ('{"id": "chat-1", "text": "hello"}', "hello"),
        ('{"text": "hello"}', "hello"),
        ("hello\nyou", "hello\nyou"),
        ('[{"id": "chat-1"}]', '[{"id": "chat-1"}]'),
        ('["a"]\n5', '["a"]\n5'),
        ('{"id": "b", "text": "two"}\n{"id": "c", "text": "three"}', "Error: Batch output missing id 'a'"),
        ('{"id": "b", "text": "two"}', "Error: Batch output missing id 'a'"),
        ('{\n "id": "b",\n "text": "two"\n}', "Error: Batch output missing id 'a'"),
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
    with pytest.raises(ProviderError) as caught:
        parse_one_of_batch(content, "a", {"b", "c"})

    assert str(caught.value).startswith(f"CLI batch output, {message}")
