"""What the replies of services say: answers, errors, streams, tokens."""

import asyncio
import json
import re
from typing import Any

import pytest

from pytest_agentv.errors import ProviderError
from pytest_agentv.model.messages import TokenUsage, candidate_answer
from pytest_agentv.model.secrets import Masker, masking
from pytest_agentv.providers.api.base import HttpReply
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.http import Http, MissingPathError, parse_path, read_events, read_reply

ANTHROPIC = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}]}
OUTPUT = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}]
RESPONSE = {"object": "response", "status": "completed", "output": OUTPUT}
CHAT = {"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}]}


def read(body: Any, kind: str = "", *, stream: bool = False, html: bool = False, **places: Any) -> ProviderResponse:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = HttpReply(200, {"content-type": kind or "application/json"}, content)
    keys = Http(url="http://localhost", stream="sse" if stream else None, **places)
    return asyncio.run(read_reply(reply, keys, "target", takes_html=html))


def said(body: Any, kind: str = "", **keys: Any) -> str:
    return candidate_answer(read(body, kind, **keys).output_messages)


def failure(body: Any, kind: str = "", **keys: Any) -> tuple[str, str]:
    with pytest.raises(ProviderError) as caught:
        read(body, kind, **keys)
    return str(caught.value), caught.value.kind


def streamed(*events: Any) -> bytes:
    return "".join(f"data: {each if isinstance(each, str) else json.dumps(each)}\n\n" for each in events).encode()


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"body": {"a": ["{{ promt }}"]}}, "unknown variable 'promt' (did you mean 'prompt'?)"),
        ({"headers": {"a": "{{ prompt"}}, "is no valid template"),
        ({"headers": {"a": "{ATTEMPT}"}}, "write {{ attempt }}"),
        ({"answer": "choices[0]"}, "expected a path such as $.choices[0].text"),
        ({"answer": "$.choices[0"}, "is no step"),
        ({"tokens": {"inputs": "$.a"}}, "expected paths for input, output, cached, reasoning"),
    ],
)
def test_faults_are_found_in_the_file(keys: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fault)):
        Http(**{"url": "http://x", **keys})


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", [{"a b": [{"c": 1}, {"c": 2}], "d": {"x": 3}}]),
        ("$['a b'][0].c", [1]),
        ('$["a b"][-1]["c"]', [2]),
        ("$['a b'][*].c", [1, 2]),
        ("$['a b'][*].x?", []),
    ],
)
def test_paths(path: str, found: Any) -> None:
    assert parse_path(path).find({"a b": [{"c": 1}, {"c": 2}], "d": {"x": 3}}) == found


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("$.answr", "there is no $.answr: $ has the keys 'answer', 'calls' (did you mean 'answer'?)"),
        ("$.answer.text", 'there is no $.answer.text: $.answer is "4"'),
        ("$.calls[1]", "there is no $.calls[1]: $.calls is a list of 1"),
        ("$.calls[*].c", "$.calls[0] has the keys 'd'"),
    ],
)
def test_a_missing_path_names_the_nearest_place(path: str, message: str) -> None:
    with pytest.raises(MissingPathError, match=re.escape(message)):
        parse_path(path).find({"answer": "4", "calls": [{"d": 2}]})


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ([], None),
        ([{"text": None}], None),
        ([{"text": None}, {"text": "hi"}, {"text": " you"}], "hi you"),
        ([{"text": ["a", None]}, {"text": []}], '[["a",null],[]]'),
        ([{"text": {"a": 1}}, {"text": None}], '[{"a":1},null]'),
    ],
)
def test_an_answer_at_all_entries_needs_one_that_says_something(content: Any, answer: str | None) -> None:
    body = {"content": content, "stop_reason": "refusal"}
    if answer is None:
        nothing = ("target gave no answer: there is nothing at $.content[*].text", "no_answer")
        assert failure(body, answer="$.content[*].text") == nothing
    else:
        assert said(body, answer="$.content[*].text") == answer


def test_texts_of_lists_in_lists_are_joined() -> None:
    place = "$.output[*].content[*].text?"
    found = read({"output": [{"content": [{"text": "a"}]}, {"content": [{"text": "b"}, {}]}, {}]}, answer=place)
    assert candidate_answer(found.output_messages) == "ab"


JSON, EVENTS = "application/json", "text/event-stream"
UNREAD = "of which no answer can be made; or name its place"


@pytest.mark.parametrize(
    ("kind", "body", "keys", "message"),
    [
        ("text/html; charset=utf-8", b"<html><title>Sign in</title>", {}, "replied with an HTML page 'Sign in' (if "),
        ("text/html", b"Sign in", {"answer": "$.a"}, "replied with what is no JSON"),
        (JSON, b'{"text": "4', {}, "replied with what is no JSON: Unterminated string"),
        (JSON, b"[" * 100_000, {}, "replied with what is no JSON: nested too deeply"),
        (JSON, b'{"text": "\xe4"}', {}, "replied with what is no JSON: 'utf-8' codec can't decode"),
        (JSON, b'{"said": "4"}', {}, "name its place, as in `answer: $.said`"),
        ("", b'{"text": "It is fo', {}, "what is no JSON: Unterminated string"),
        ("text/html", b'{"text": "four", "cost_usd": 0.5', {}, "what is no JSON: Expecting ',' delimiter"),
        ("text/plain", b" \n", {}, "replied with an empty body"),
        (f"{EVENTS}; charset=utf-8", streamed({"text": "4"}), {}, "a stream of events (write `stream: sse` to read"),
        (EVENTS, streamed({"text": "4"}), {"answer": "$.text"}, "a stream of events (write `stream: sse` to read"),
        (EVENTS, b'data: {"t": "He', {"stream": True, "answer": "$.t"}, "an event that is no whole JSON"),
        (EVENTS, b'data: {"text": "fo', {"stream": True}, "an event that is no whole JSON"),
        (EVENTS, b"data: {", {"stream": True}, "an event that is no whole JSON"),
        (EVENTS, streamed({"t": "fo"}) + b'data: {"t', {"stream": True}, "an event that is no whole JSON"),
        (EVENTS, b"data: ", {"stream": True}, "sent no event, but: data:"),
        (EVENTS, b"data: a\n\nevent: error\ndata: no room\n\n", {"stream": True}, "an error in its stream: no room"),
        (EVENTS, streamed({"type": "message_start"}, {"delta": {"text": "a"}}), {"stream": True}, UNREAD),
        (EVENTS, streamed({"candidates": [{"content": {"parts": [{"text": "a"}]}}]}), {"stream": True}, UNREAD),
        (JSON, b'{"error": "quota"}', {"stream": True}, 'sent no event, but: {"error": "quota"}'),
    ],
)
def test_what_is_no_answer_is_never_judged(kind: str, body: bytes, keys: dict[str, Any], message: str) -> None:
    text, kind = failure(body, kind, **keys)
    assert message in text
    assert kind == ("no_answer" if "empty" in message or "no event" in message else "crash")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json; charset=iso-8859-1", '{"text": "Größe"}'.encode("latin-1")),
        ("application/json; charset=nobody-knows", '{"text": "Größe"}'.encode()),
        ("application/json", '{"text": "Größe"}'.encode("utf-16")),
        ("application/json", '{"text": "Größe"}'.encode("utf-8-sig")),
        ("text/plain; charset=iso-8859-1", "Größe".encode("latin-1")),
        ("text/plain; charset=undefined", "Größe".encode()),
        ("text/plain; charset=base64", "Größe".encode()),
        ("text/plain", "Größe".encode("utf-8-sig")),
    ],
)
def test_letters_are_read_in_the_encoding_of_the_reply(kind: str, body: bytes) -> None:
    assert said(body, kind) == "Größe"


@pytest.mark.parametrize(
    ("kind", "body", "html"),
    [
        ("text/html", "<html>Hi</html>", True),
        ("text/plain", "<html>Hi</html>", False),
        ("text/html", "A text of a framework that calls every text a page", False),
        ("text/html", "<b>Hi</b>", False),
        ("text/html", "1.50", False),
        ("text/plain", '{"a": 1', False),
    ],
)
def test_what_is_no_page_or_asked_for_is_an_answer(kind: str, body: str, html: bool) -> None:
    assert said(body.encode(), kind, html=html) == body


@pytest.mark.parametrize("error", ["quota", True, 503, ["quota"], [{"message": "quota"}], {"code": 503}])
def test_an_answer_beside_an_error_is_not_judged(error: Any) -> None:
    assert "replied with an error: " in failure({"said": "Try later.", "error": error}, answer="$.said")[0]
    assert "replied with an error: " in failure({"text": "", "error": error})[0]
    assert said({"error": "quota"}, answer="$.error") == "quota"


@pytest.mark.parametrize("error", [None, "", {}, [], 0, False, {"code": 0, "message": None}])
@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_may_say_that_there_is_no_error(error: Any, stream: bool) -> None:
    body = {"said": "4", "error": error}
    assert said(streamed(body) if stream else body, answer="$.said", stream=stream) == "4"


@pytest.mark.parametrize("answer", ["$.delta?", "$.delta", None])
@pytest.mark.parametrize(
    "event",
    [
        {"error": {"message": "overloaded", "code": 502}},
        {"error": "overloaded", "delta": ""},
        {"type": "run_error", "error": "overloaded"},
        {"type": "RunFailed", "error": "overloaded"},
    ],
)
def test_an_answer_that_an_error_in_the_stream_broke_off_is_not_judged(event: Any, answer: str | None) -> None:
    text, _ = failure(streamed({"delta": "It is fo"}, event, "[DONE]"), EVENTS, stream=True, answer=answer)
    assert re.search("sent an error in its stream: .*overloaded", text)


@pytest.mark.parametrize("name", ["type", "event", None])
def test_the_error_of_a_step_does_not_break_the_stream_off(name: str | None) -> None:
    step = {"tool": "search", "error": "no such page", **({name: "tool_result"} if name else {})}
    event = b"" if name else b"event: tool_result\n"
    body = streamed({"delta": "It is "}) + event + streamed(step, {"delta": "4."})
    assert said(body, EVENTS, stream=True, answer="$.delta?") == "It is 4."


@pytest.mark.parametrize("kind", [{"object": "chat.completion.chunk"}, {}])
@pytest.mark.parametrize("answer", [None, "$.choices[0].delta.content?"])
def test_a_stream_of_a_model_that_stops_before_its_end_is_not_judged(kind: Any, answer: str | None) -> None:
    part = kind | {"choices": [{"delta": {"content": "a"}, "finish_reason": None}]}
    assert "ended in the middle of its stream" in failure(streamed(part), stream=True, answer=answer)[0]
    for end in ("[DONE]", kind | {"choices": [{"finish_reason": "stop"}]}):
        assert said(streamed(part, end), stream=True, answer=answer) == "a"


@pytest.mark.parametrize("before", [5, 41, 50, 55, 330, 339, 345, 390])
@pytest.mark.parametrize(
    ("shape", "keys"),
    [
        ("event: error\ndata: {}\n\n", {"stream": True}),
        ('{{"error": "{}"}}', {"answer": "$.error.text"}),
        ('{{"{}": 1}}', {"answer": "$.text"}),
    ],
)
def test_an_error_does_not_show_half_a_secret(shape: str, keys: dict[str, Any], before: int) -> None:
    masker = Masker(["hunter2-0123456789"])
    with masking(masker):
        text, _ = failure(shape.format("w" * before + "hunter2-0123456789 is wrong").encode(), **keys)
    assert "hunt" not in masker.mask(text)


@pytest.mark.parametrize(
    ("data", "values"),
    [
        (("I have ", "5", " tents"), ["I have ", "5", " tents"]),
        (("1", ".50"), ["1", ".50"]),
        (('"a"', '"5"'), ["a", "5"]),
        (("It is ", "5", '{"text": "It is 5"}'), ["It is ", "5", {"text": "It is 5"}]),
        (('{"', "a", '": 1}'), ['{"', "a", '": 1}']),
    ],
)
def test_pieces_of_a_text_that_look_like_json_stay_as_they_are(data: tuple[str, ...], values: list[Any]) -> None:
    assert read_events(streamed(*data).decode(), "it") == values


def test_events_have_many_lines_and_line_ends_and_texts_with_numbers() -> None:
    text = 'data: a\r\ndata: b\r\n\r\nid: 1\rdata:{"c": 1}\r\rdata: rest'
    assert read_events(text, "it") == ["a\nb", {"c": 1}, "rest"]
    events = streamed({"t": "I have "}, {"t": 5}, {"t": None}, {"t": " tents"})
    assert said(events, stream=True, answer="$.t") == "I have 5 tents"


INPUT = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60}}
PROMPT = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 60}}
WRITTEN = {"input_tokens": 10, "cache_creation_input_tokens": 5000, "cache_read_input_tokens": 200}
IN_TOTAL = {"total_tokens": 17, "completion_tokens_details": {"reasoning_tokens": 5}}  # as xAI reports it


@pytest.mark.parametrize(
    ("reply", "usage", "expected"),
    [
        (ANTHROPIC, {**WRITTEN, "output_tokens": 4}, TokenUsage(5010, 4, 200)),
        (RESPONSE, {**INPUT, "output_tokens": 9}, TokenUsage(40, 9, 60)),
        (CHAT, {**PROMPT, "completion_tokens": 9}, TokenUsage(40, 9, 60)),
        (CHAT, {"prompt_tokens": 10, "completion_tokens": 2, **IN_TOTAL}, TokenUsage(10, 7, None, 5)),
        (RESPONSE, {"input_tokens": 100}, None),
        (RESPONSE, {"input_tokens": 100, "input_tokens_details": {}, "output_tokens": None}, None),
        (ANTHROPIC, {"input_tokens": 100, "cache_read_input_tokens": 5}, None),
        (CHAT, {"prompt_tokens": 100, "total_tokens": 100}, None),
    ],
)
def test_tokens_count_alike_with_and_without_a_path(
    reply: dict[str, Any], usage: dict[str, Any], expected: TokenUsage | None
) -> None:
    whole = {**reply, "usage": usage}
    assert read(whole).token_usage == read(whole, tokens="$.usage").token_usage == expected


@pytest.mark.parametrize(
    ("tokens", "usage", "shown"),
    [
        ("$.usage", {"input": 7, "output": "4000"}, '{"input":7,"output":"4000"}'),
        ("$.usage", 12, "12"),
        ({"input": "$.usage.in"}, {"in": 7}, '{"input":7}'),
        ({"input": "$.usage.in", "output": "$.usage.out?"}, {"in": 7}, '{"input":7,"output":null}'),
        *(("$.usage", usage, None) for usage in (None, {}, {"input": None, "output": None}, {"input": 0, "output": 0})),
    ],
)
def test_what_is_unknown_is_not_0_and_is_told(tokens: Any, usage: Any, shown: str | None) -> None:
    response = read({"text": "hi", "usage": usage}, tokens=tokens, answer="$.text")
    told = f"the tokens are {shown} and were left out: expected the numbers of input and of output tokens"
    assert (response.token_usage, response.warnings) == (None, (told,) if shown else ())
