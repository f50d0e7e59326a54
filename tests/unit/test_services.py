"""Services that speak HTTP: requests, redirects, replies, streams."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from pytest_agentv.cases.prompts import ChatMessage, Prompt
from pytest_agentv.engine.cache import CachedProvider
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.cases import Target
from pytest_agentv.model.messages import TokenUsage, ToolCall, candidate_answer
from pytest_agentv.model.secrets import Masker, Secret, masking
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.http import Http
from pytest_agentv.providers.service_reply import MissingPathError, parse_path, read_events
from pytest_agentv.providers.table import create_provider

NASTY = 'it\'s "quoted" {{ prompt }} $(rm) \\ \n & ä 🙂'
Answer = Callable[["Asked"], tuple[int, dict[str, str], Any]]


class Asked:
    """A request that arrived."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self.method = handler.command
        self.path = handler.path
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.content = handler.rfile.read(int(self.headers.get("content-length", "0")))

    @property
    def body(self) -> Any:
        return json.loads(self.content)


class Server:
    """Answers with what `answer` says, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answer: Answer = lambda _: (200, {}, {"answer": "4", "text": "4"})
        self.url = ""


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    found = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = Asked(self)
            found.asked.append(asked)
            status, headers, body = found.answer(asked)
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"content-length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            """Keep standard error clean."""

    class HttpServer(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 100  # a connection that finds no place in the queue tries again after a second

    httpd = HttpServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{httpd.server_address[1]}"
    thread = Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield found
    httpd.shutdown()
    httpd.server_close()
    thread.join()


@pytest.fixture
def server(running: Server) -> Server:
    running.asked.clear()
    running.answer = lambda _: (200, {}, {"answer": "4", "text": "4"})
    return running


def ask(server: Server, *prompts: str | Prompt, cache: Path | None = None, **keys: Any) -> list[ProviderResponse]:
    values = {"url": server.url, "max_retries": 0, **keys}
    target = Target("shop", "http", Http(**values), path="/p/targets.yaml", line=3)

    async def run() -> list[ProviderResponse]:
        provider: Any = create_provider(target, {})
        if cache is not None:
            provider = CachedProvider(provider, "fingerprint", cache, Masker())
        try:
            requests = [
                ProviderRequest(prompt if isinstance(prompt, Prompt) else Prompt(prompt), f"c{number}")
                for number, prompt in enumerate(prompts or ("2 + 2?",))
            ]
            return list(await asyncio.gather(*map(provider.invoke, requests)))
        finally:
            await provider.close()

    return asyncio.run(run())


def failure(server: Server, **keys: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        ask(server, **keys)
    return caught.value


def replying(body: Any, status: int = 200, **headers: str) -> Answer:
    return lambda _: (status, headers, body)


class TestRequests:
    def test_a_prompt_is_data_in_url_headers_and_body(self, server: Server) -> None:
        ask(
            server,
            NASTY,
            url=server.url + "/a?q={{ prompt }}",
            headers={"X-Question": "{{ eval_id }}"},
            body={"deep": [{"question": "{{ prompt }}", "n": 1}], "text": "Q: {{ prompt }}!"},
        )

        (asked,) = server.asked
        assert asked.body == {"deep": [{"question": NASTY, "n": 1}], "text": f"Q: {NASTY}!"}
        assert parse_qs(urlsplit(asked.path).query) == {"q": [NASTY]}
        assert asked.headers["x-question"] == "c0"
        assert asked.headers["content-type"] == "application/json"

    def test_messages_keep_their_type(self, server: Server) -> None:
        chat = (ChatMessage("user", "a"), ChatMessage("assistant", "b"), ChatMessage("user", "c"))

        ask(server, Prompt("flat", "", chat), body={"messages": "{{ messages }}", "last": "{{ messages[-1].content }}"})

        roles = [{"role": turn.role, "content": turn.content} for turn in chat]
        assert server.asked[0].body == {"messages": roles, "last": "c"}

    def test_a_body_is_the_prompt_where_the_target_names_none(self, server: Server) -> None:
        ask(server, "hi")
        ask(server, "hi", method="GET")

        assert server.asked[0].body == {"prompt": "hi"}
        assert (server.asked[1].method, server.asked[1].content) == ("GET", b"")

    def test_a_text_is_sent_as_it_is(self, server: Server) -> None:
        ask(server, "hi", body="Q: {{ prompt }}")

        assert server.asked[0].content == b"Q: hi"
        assert server.asked[0].headers["content-type"].startswith("text/plain")

    @pytest.mark.parametrize(
        ("keys", "fault"),
        [
            ({"body": {"a": ["{{ promt }}"]}}, "unknown variable 'promt' (did you mean 'prompt'?)"),
            ({"url": "http://x/{{ promt }}"}, "unknown variable 'promt'"),
            ({"headers": {"a": "{{ prompt"}}, "is no valid template"),
            ({"headers": {"a": "{ATTEMPT}"}}, "write {{ attempt }}"),
            ({"answer": "choices[0]"}, "expected a path such as $.choices[0].text"),
            ({"answer": "$.choices[0"}, "is no step"),
            ({"tokens": {"inputs": "$.a"}}, "expected paths for input, output, cached, reasoning"),
        ],
    )
    def test_faults_are_found_in_the_file(self, keys: dict[str, Any], fault: str) -> None:
        with pytest.raises(ValueError, match=re.escape(fault)):
            Http(**{"url": "http://x", **keys})

    def test_fifty_in_flight_do_not_mix(self, server: Server) -> None:
        server.answer = lambda asked: (200, {}, {"answer": asked.body["prompt"]})

        found = ask(server, *(f"q{number}" for number in range(50)), answer="$.answer")

        assert [candidate_answer(response.output_messages) for response in found] == [f"q{n}" for n in range(50)]


class TestReplies:
    def test_each_part_has_a_path(self, server: Server) -> None:
        server.answer = replying({
            "choices": [{"text": "It is 4."}],
            "usage": {"input_tokens": 10, "output_tokens": 5, "reasoning_tokens": 2},
            "steps": [{"name": "add", "arguments": '{"a": 2}', "output": 4, "id": "1"}],
            "sources": [{"text": "a"}, {"text": "b"}],
        })  # fmt: skip

        (found,) = ask(
            server, answer="$.choices[0].text", tokens="$.usage", tool_calls="$.steps", context="$.sources[*].text"
        )

        assert candidate_answer(found.output_messages) == "It is 4."
        assert found.token_usage == TokenUsage(10, 5, None, 2)
        assert (found.output_messages or ())[0].tool_calls == (ToolCall("add", {"a": 2}, 4, "1"),)
        assert found.retrieved_context == ("a", "b")
        assert not found.is_text_only

    def test_tokens_may_have_a_path_each(self, server: Server) -> None:
        server.answer = replying({"a": "x", "in": 3, "out": 4})

        (found,) = ask(server, answer="$.a", tokens={"input": "$.in", "output": "$.out"})

        assert found.token_usage == TokenUsage(3, 4)

    @pytest.mark.parametrize(
        "body",
        [
            {"text": "hello"},
            {"choices": [{"message": {"role": "assistant", "content": "hello"}}]},
            "hello",
            b"hello",
        ],
    )
    def test_known_shapes_need_no_path(self, server: Server, body: Any) -> None:
        server.answer = replying(
            body, **{"content-type": "text/html" if isinstance(body, bytes) else "application/json"}
        )

        (found,) = ask(server)

        assert candidate_answer(found.output_messages) == "hello"

    @pytest.mark.parametrize(
        ("keys", "message"),
        [
            ({"answer": "$.answr"}, "there is no $.answr: $ has the keys 'answer', 'calls' (did you mean 'answer'?)"),
            ({"answer": "$.answer.text"}, 'there is no $.answer.text: $.answer is "4"'),
            ({"tool_calls": "$.calls[0]"}, "there is no $.calls[0]: $.calls is a list of 0"),
            ({"context": "$.sources"}, "there is no $.sources: $ has the keys"),
        ],
    )
    def test_a_missing_path_names_the_nearest_place(self, server: Server, keys: dict[str, str], message: str) -> None:
        server.answer = replying({"answer": "4", "calls": []})

        error = failure(server, **{"answer": "$.answer", **keys})

        assert message in str(error)
        assert error.kind == "crash"

    def test_an_optional_path_may_be_missing(self, server: Server) -> None:
        (found,) = ask(server, answer="$.answer", tool_calls="$.calls?")

        assert [message.tool_calls for message in found.output_messages or ()] == [()]
        assert not found.is_text_only

    def test_no_answer_is_an_error(self, server: Server) -> None:
        server.answer = replying({"answer": None})

        assert failure(server, answer="$.answer").kind == "no_answer"

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
    def test_an_answer_at_all_entries_needs_one_that_says_something(
        self, server: Server, content: Any, answer: str | None
    ) -> None:
        server.answer = replying({"content": content, "stop_reason": "refusal"})
        if answer is None:
            error = failure(server, answer="$.content[*].text")
            assert error.kind == "no_answer"
            assert "gave no answer: there is nothing at $.content[*].text" in str(error)
        else:
            assert candidate_answer(ask(server, answer="$.content[*].text")[0].output_messages) == answer

    def test_texts_of_lists_in_lists_are_joined(self, server: Server) -> None:
        server.answer = replying({"output": [{"content": [{"text": "a"}]}, {"content": [{"text": "b"}, {}]}, {}]})

        (found,) = ask(server, answer="$.output[*].content[*].text?", context="$.output[*].content[*].text?")

        assert candidate_answer(found.output_messages) == "ab"
        assert found.retrieved_context == ("a", "b")

    def test_an_entry_without_an_optional_place_is_left_out(self, server: Server) -> None:
        server.answer = replying({"answer": "4", "sources": [{"text": "a"}, {"title": "b"}, {"text": None}, None]})

        (found,) = ask(server, answer="$.answer", context="$.sources[*].text?")

        assert found.retrieved_context == ("a",)

    def test_what_is_no_json_is_told(self, server: Server) -> None:
        server.answer = replying(b"hello")

        assert "replied with what is no JSON" in str(failure(server, answer="$.a"))

    @pytest.mark.parametrize(
        ("kind", "body", "keys", "message"),
        [
            (
                "text/html; charset=utf-8",
                b"<html><title>Sign in</title>",
                {},
                "replied with an HTML page 'Sign in' (if ",
            ),
            ("text/html", b"Sign in", {"answer": "$.a"}, "replied with what is no JSON"),
            ("application/json", b'{"text": "4', {}, "replied with what is no JSON: Unterminated string"),
            ("application/json", b"[" * 100_000, {}, "replied with what is no JSON: nested too deeply"),
            ("application/json", b'{"text": "\xe4"}', {}, "replied with what is no JSON: 'utf-8' codec can't decode"),
            ("application/json", b'{"error": {"message": "overloaded"}}', {}, "replied with an error: overloaded"),
            ("text/plain", b" \n", {}, "replied with an empty body"),
            (
                "text/event-stream",
                b'data: {"t": "He',
                {"stream": "sse", "answer": "$.t"},
                "an event that is no whole JSON",
            ),
            ("text/event-stream", b'data: {"text": "fo', {"stream": "sse"}, "an event that is no whole JSON"),
            ("text/event-stream", b"data: ", {"stream": "sse"}, "sent no event, but: data:"),
            ("text/event-stream", b'data: {"a": {}', {"stream": "sse"}, "an event that is no whole JSON"),
            ("text/event-stream", b"data: {", {"stream": "sse"}, "an event that is no whole JSON"),
            ("", b'{"text": "It is fo', {}, "what is no JSON: Unterminated string"),
            ("text/html", b'{"text": "four", "cost_usd": 0.5', {}, "what is no JSON: Expecting ',' delimiter"),
            ("application/json", b'{"error": "quota"}', {"stream": "sse"}, 'sent no event, but: {"error": "quota"}'),
        ],
    )
    def test_what_is_no_answer_is_never_judged(
        self, server: Server, kind: str, body: bytes, keys: dict[str, str], message: str
    ) -> None:
        server.answer = replying(body, **{"content-type": kind})

        error = failure(server, **keys)

        assert message in str(error)
        assert error.kind == ("no_answer" if "empty" in message or "no event" in message else "crash")

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
            ("text/plain; charset=utf-8", "Größe".encode("utf-8-sig")),
        ],
    )
    def test_letters_are_read_in_the_encoding_of_the_reply(self, server: Server, kind: str, body: bytes) -> None:
        server.answer = replying(body, **{"content-type": kind})

        (found,) = ask(server)

        assert candidate_answer(found.output_messages) == "Größe"

    @pytest.mark.parametrize(
        ("kind", "body", "keys"),
        [
            ("text/html", "<html>Hi</html>", {"headers": {"Accept": "text/html"}}),
            ("text/plain", "<html>Hi</html>", {}),
            ("text/html", "A text of a framework that calls every text a page", {}),
            ("text/html", "<b>Hi</b>", {}),
            ("text/plain", "120", {}),
            ("text/html", "1.50", {}),
            ("text/plain", '{"a": 1', {}),
        ],
    )
    def test_what_is_no_page_or_asked_for_is_an_answer(
        self, server: Server, kind: str, body: str, keys: dict[str, Any]
    ) -> None:
        server.answer = replying(body.encode(), **{"content-type": kind})

        (found,) = ask(server, **keys)

        assert candidate_answer(found.output_messages) == body

    @pytest.mark.parametrize("stream", [None, "sse"])
    def test_an_answer_beside_an_error_is_not_cached(self, server: Server, stream: str | None, tmp_path: Path) -> None:
        busy, free = (json.dumps({"text": "4", "error": error}) for error in ("quota", None))

        def say(reply: str) -> ProviderResponse:
            server.answer = replying((f"data: {reply}\n\n" if stream else reply).encode())
            return ask(server, cache=tmp_path, stream=stream)[0]

        for _ in range(2):
            with pytest.raises(ProviderError, match="quota"):
                say(busy)
        said = [say(free), say(busy)]
        assert [(candidate_answer(each.output_messages), each.cached) for each in said] == [("4", False), ("4", True)]
        assert len(server.asked) == 3

    @pytest.mark.parametrize("error", [True, 503, ["quota"], [{"message": "quota"}], {"code": 503}])
    def test_an_error_needs_no_text(self, server: Server, error: Any) -> None:
        server.answer = replying({"said": "Try later.", "error": error})

        assert "replied with an error: " in str(failure(server, answer="$.said"))

    @pytest.mark.parametrize("error", ["quota", {"message": "quota"}])
    def test_an_answer_beside_an_error_is_not_judged(self, server: Server, error: Any) -> None:
        server.answer = replying({"said": "", "error": error})

        assert "replied with an error: quota (a reply whose `error` is empty is fine)" in str(
            failure(server, answer="$.said")
        )
        server.answer = replying({"text": "", "error": error})
        assert "replied with an error: quota" in str(failure(server))
        assert candidate_answer(ask(server, answer="$.error")[0].output_messages) in ("quota", '{"message":"quota"}')

        for none in (None, "", {}, [], 0, False, {"code": 0, "message": None}):
            server.answer = replying({"said": "4", "error": none})
            assert candidate_answer(ask(server, answer="$.said")[0].output_messages) == "4"

    def test_json_may_have_the_type_of_a_page(self, server: Server) -> None:
        server.answer = replying(b'{"a": "4"}', **{"content-type": "text/html"})

        (found,) = ask(server, answer="$.a")

        assert candidate_answer(found.output_messages) == "4"

    def test_a_stream_is_read_to_its_end(self, server: Server) -> None:
        events = [
            {"delta": "It is "},
            {"ping": 1},
            {"delta": "4."},
            {"usage": {"prompt_tokens": 3, "completion_tokens": 2}},
        ]
        text = ": hello\n\n" + "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        server.answer = replying(text.encode(), **{"content-type": "text/event-stream"})

        (found,) = ask(server, stream="sse", answer="$.delta", tokens="$.usage")

        assert candidate_answer(found.output_messages) == "It is 4."
        assert found.token_usage == TokenUsage(3, 2)
        assert server.asked[0].headers["accept"] == "text/event-stream"

    @pytest.mark.parametrize("answer", ["$.delta?", "$.delta", None])
    @pytest.mark.parametrize(
        ("event", "said"),
        [
            ({"error": {"message": "overloaded", "code": 502}}, "overloaded"),
            ({"error": "overloaded", "delta": ""}, "overloaded"),
        ],
    )
    def test_an_answer_that_an_error_in_the_stream_broke_off_is_not_judged(
        self, server: Server, event: Any, said: str, answer: str | None
    ) -> None:
        text = f'data: {{"delta": "It is fo"}}\n\ndata: {json.dumps(event)}\n\ndata: [DONE]\n\n'
        server.answer = replying(text.encode(), **{"content-type": "text/event-stream"})
        place = {} if answer is None else {"answer": answer}

        error = str(failure(server, stream="sse", **place))

        assert "sent an error in its stream: " in error
        assert said in error

    @pytest.mark.parametrize("name", ["type", "event", None])
    def test_the_error_of_a_step_does_not_break_the_stream_off(self, server: Server, name: str | None) -> None:
        step = {"tool": "search", "error": "no such page", **({name: "tool_result"} if name else {})}
        event = "" if name else "event: tool_result\n"
        text = f'data: {{"delta": "It is "}}\n\n{event}data: {json.dumps(step)}\n\ndata: {{"delta": "4."}}\n\n'
        server.answer = replying(text.encode(), **{"content-type": "text/event-stream"})

        (found,) = ask(server, stream="sse", answer="$.delta?")

        assert candidate_answer(found.output_messages) == "It is 4."

    @pytest.mark.parametrize(
        "events",
        [
            [{"type": "run_error", "error": "overloaded"}, {"type": "end"}],
            [{"type": "RunFailed", "error": "overloaded"}, {"type": "end"}],
            [{"type": "done", "error": "overloaded"}],
        ],
    )
    def test_the_error_of_a_run_breaks_the_stream_off(self, server: Server, events: list[Any]) -> None:
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in [{"delta": "It is fo"}, *events])
        server.answer = replying(text.encode(), **{"content-type": "text/event-stream"})

        assert "overloaded" in str(failure(server, stream="sse", answer="$.delta?"))

    def test_events_may_say_that_there_is_no_error(self, server: Server) -> None:
        text = "".join(
            f'data: {{"delta": "{part}", "error": {none}}}\n\n'
            for part, none in (("f", "null"), ("o", '""'), ("u", "{}"), ("r", '{"code": 0, "message": ""}'))
        )
        server.answer = replying(text.encode(), **{"content-type": "text/event-stream"})

        (found,) = ask(server, stream="sse", answer="$.delta")

        assert candidate_answer(found.output_messages) == "four"

    def test_a_stream_that_ends_within_json_is_not_judged(self, server: Server) -> None:
        chunk = {"object": "chat.completion.chunk", "choices": [{"delta": {"content": "It is fo"}}]}
        text = f'data: {json.dumps(chunk)}\n\ndata: {{"object": "chat.compl'
        server.answer = replying(text.encode(), **{"content-type": "text/event-stream"})

        assert "an event that is no whole JSON" in str(failure(server, stream="sse"))

    @pytest.mark.parametrize("answer", [None, "$.text"])
    def test_a_stream_that_the_target_does_not_name_is_no_answer(self, server: Server, answer: str | None) -> None:
        place = {} if answer is None else {"answer": answer}
        server.answer = replying(b'data: {"text": "four"}\n\n', **{"content-type": "text/event-stream; charset=utf-8"})

        assert "a stream of events (write `stream: sse` to read it)" in str(failure(server, **place))

    @pytest.mark.parametrize("kind", [{"object": "chat.completion.chunk"}, {}])
    @pytest.mark.parametrize("answer", [None, "$.choices[0].delta.content?"])
    def test_a_stream_of_a_model_that_stops_before_its_end_is_not_judged(
        self, server: Server, answer: str | None, kind: dict[str, str]
    ) -> None:
        place = {} if answer is None else {"answer": answer}
        chunks = [kind | {"choices": [{"delta": {"content": text}, "finish_reason": None}]} for text in ("a", "b")]
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        server.answer = replying(text.encode())

        assert "ended in the middle of its stream" in str(failure(server, stream="sse", **place))

        for end in (
            "data: [DONE]",
            f"data: {json.dumps(kind | {'choices': [{'finish_reason': 'stop'}]})}",
        ):
            server.answer = replying(f"{text}{end}\n\n".encode())
            (found,) = ask(server, stream="sse", **place)
            assert candidate_answer(found.output_messages) == "ab"

    @pytest.mark.parametrize(
        "parts",
        [
            [{"type": "message_start"}, {"type": "content_block_delta", "index": 0, "delta": {"text": "a"}}],
            [{"candidates": [{"content": {"role": "model", "parts": [{"text": "a"}]}}]}],
        ],
    )
    def test_streams_of_other_apis_are_not_read_without_a_path(self, server: Server, parts: list[Any]) -> None:
        server.answer = replying("".join(f"data: {json.dumps(event)}\n\n" for event in parts).encode())

        assert "of which no answer can be made; or name its place" in str(failure(server, stream="sse"))

    def test_an_error_in_a_stream_is_one(self, server: Server) -> None:
        server.answer = replying(b"data: a\n\nevent: error\ndata: out of memory\n\n")

        assert "sent an error in its stream: out of memory" in str(failure(server, stream="sse"))


class TestFailures:
    def test_a_failure_is_repeated_as_those_of_models(self, server: Server) -> None:
        answers = iter([(503, {"retry-after": "0"}, {"detail": "busy"}), (200, {}, {"answer": "4"})])
        server.answer = lambda _: next(answers)

        (found,) = ask(server, answer="$.answer", max_retries=1, retry_initial_delay_ms=1)

        assert found.raw["request_attempts"] == 2
        assert "busy" in found.raw["last_error"]

    @pytest.mark.parametrize(
        ("status", "kind", "hint"),
        [(401, "auth", "check the headers"), (422, "config", "check the body"), (500, "network", "")],
    )
    def test_the_status_tells_the_kind(self, server: Server, status: int, kind: str, hint: str) -> None:
        server.answer = replying({"detail": "no"}, status)

        error = failure(server)

        assert (error.kind, hint in str(error)) == (kind, True)
        assert f"HTTP {status}: no" in str(error)

    @pytest.mark.parametrize("place", ["http://user:hunter2@localhost/c?key=hunter2", "/c", "http://[bad"])
    def test_a_redirect_is_not_followed(self, server: Server, place: str) -> None:
        server.answer = lambda _: (307, {"location": place}, b"")

        error = failure(server, headers={"X-Pass": Secret("hunter2-0123456789")})

        shown = place.replace("user:hunter2@", "").partition("?")[0]
        assert f"({server.url} leads to {shown}: if that is right, write it into target 'shop'" in str(error)
        assert len(server.asked) == 1

    @pytest.mark.parametrize("before", [5, 41, 50, 55, 330, 339, 345, 390])
    @pytest.mark.parametrize(
        ("shape", "keys"),
        [
            ("event: error\ndata: {}\n\n", {"stream": "sse"}),
            ('{{"error": "{}"}}', {"answer": "$.error.text"}),
            ('{{"{}": 1}}', {"answer": "$.text"}),
        ],
    )
    def test_an_error_does_not_show_half_a_secret(
        self, server: Server, shape: str, keys: dict[str, str], before: int
    ) -> None:
        server.answer = replying(shape.format("w" * before + "hunter2-0123456789 is wrong").encode())

        masker = Masker(["hunter2-0123456789"])
        with masking(masker):
            error = failure(server, **keys)

        assert "hunt" not in masker.mask(str(error))

    def test_a_time_limit_ends_a_call(self, server: Server) -> None:
        with pytest.raises(ProviderError) as caught:
            ask(server, url="http://127.0.0.1:1", timeout_seconds=0.000001)
        assert caught.value.kind == "timeout"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", {"a b": [{"c": 1}, {"c": 2}], "d": {"x": 3}}),
        ("$['a b'][0].c", 1),
        ('$["a b"][-1]["c"]', 2),
        ("$['a b'][*].c", [1, 2]),
    ],
)
def test_paths(path: str, found: Any) -> None:
    assert parse_path(path).find({"a b": [{"c": 1}, {"c": 2}], "d": {"x": 3}}) == [found]


def test_a_path_over_all_entries_needs_each() -> None:
    with pytest.raises(MissingPathError, match=r"\$\[1\] has the keys 'd'"):
        parse_path("$[*].c").find([{"c": 1}, {"d": 2}])


def test_events_have_many_lines_and_line_ends() -> None:
    assert read_events('data: a\r\ndata: b\r\n\r\nid: 1\rdata:{"c": 1}\r\rdata: rest', "it") == [
        "a\nb",
        {"c": 1},
        "rest",
    ]


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
    assert read_events("".join(f"data: {each}\n\n" for each in data), "it") == values


def test_numbers_among_the_texts_of_a_stream_are_part_of_the_answer(server: Server) -> None:
    events = [{"t": "I have "}, {"t": 5}, {"t": None}, {"t": " tents"}]
    server.answer = replying("".join(f"data: {json.dumps(event)}\n\n" for event in events).encode())

    (found,) = ask(server, stream="sse", answer="$.t")

    assert candidate_answer(found.output_messages) == "I have 5 tents"


def test_a_reply_of_no_known_shape_is_told_with_the_way_out(server: Server) -> None:
    server.answer = replying({"said": "4"})

    assert "name its place, as in `answer: $.said`" in str(failure(server))
