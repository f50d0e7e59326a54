"""The target proxy as a raw HTTP client sees it: every row of its wire, and that nothing of it stays open."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import tries

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import EvaluatorError, ProviderError, TargetError
from pytest_agentv.evaluators import target_proxy
from pytest_agentv.evaluators.context import Context, ProxiedQuestion, Services
from pytest_agentv.evaluators.script import CodeJudge, Proxy
from pytest_agentv.evaluators.target_proxy import TargetProxy, raw_text
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import Message, ToolCall
from pytest_agentv.model.results import Score
from pytest_agentv.providers.base import ProviderResponse


class StubTargets:
    """Targets that answer with their name and the question."""

    default_name = "judge"
    names = ("main", "judge", "broken", "unset", "odd")

    def __init__(self) -> None:
        self.asked: list[tuple[str, ProxiedQuestion]] = []
        self.started = asyncio.Event()
        self.cancelled = False

    def resolve(self, name: str) -> Callable[[ProxiedQuestion], Awaitable[ProviderResponse]]:
        if name == "unset":
            raise TargetError("target 'unset' needs an environment variable")

        async def ask(asked: ProxiedQuestion) -> ProviderResponse:
            self.asked.append((name, asked))
            return await self.answer(name, asked)

        return ask

    async def answer(self, name: str, asked: ProxiedQuestion) -> ProviderResponse:
        self.started.set()
        if name == "broken":
            raise ProviderError("the model is down")
        if asked.question == "hang":
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled = True
        content: Any = object() if name == "odd" else f"{name}: {asked.question}"
        call = ToolCall("search", {"docId": 1}, duration_ms=5.0)
        return ProviderResponse((Message("assistant", content, (call,) if asked.question == "tools" else ()),))


async def exchange(proxy: TargetProxy, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send bytes and return status, headers and body of the response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
    writer.write(request)
    data = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), body


def encode(proxy: TargetProxy, method: str, path: str, body: Any = None, token: str | None = None) -> bytes:
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token or proxy.token}\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def converse(*requests: tuple[Any, ...], max_calls: int = 50, targets: StubTargets | None = None) -> list[Any]:
    """Send requests one after another to one proxy; return (status, JSON) of each."""

    async def run() -> list[Any]:
        async with TargetProxy(targets or StubTargets(), max_calls, 7.5) as proxy:
            found = []
            for request in requests:
                status, _, body = await exchange(proxy, encode(proxy, *request))
                found.append((status, json.loads(body) if body else None))
            return found

    return asyncio.run(run())


def answer(text: str) -> dict[str, Any]:
    return {"outputMessages": [{"role": "assistant", "content": text}], "rawText": text}


# --- the wire, row by row


def test_the_script_finds_the_proxy_by_two_variables():
    async def run() -> TargetProxy:
        async with TargetProxy(StubTargets(), 1) as proxy:
            url, token = proxy.environment["AGENTV_TARGET_PROXY_URL"], proxy.environment["AGENTV_TARGET_PROXY_TOKEN"]
            assert url.startswith("http://127.0.0.1:")
            assert 0 < int(url.rpartition(":")[2]) < 65536
            assert len(token) == 64
            assert set(token) <= set("0123456789abcdef")
            return proxy

    assert asyncio.run(run()).token != asyncio.run(run()).token


@pytest.mark.parametrize("path", ["/info", "/nowhere"])
def test_options_need_no_token(path):
    async def run() -> Any:
        async with TargetProxy(StubTargets(), 1) as proxy:
            return await exchange(proxy, f"OPTIONS {path} HTTP/1.1\r\n\r\n".encode())

    status, headers, body = asyncio.run(run())
    assert (status, body) == (204, b"")
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert headers["Access-Control-Allow-Methods"] == "GET, POST, OPTIONS"
    assert headers["Access-Control-Allow-Headers"] == "Content-Type, Authorization"


def test_every_response_is_json_for_every_origin():
    async def run() -> Any:
        async with TargetProxy(StubTargets(), 1) as proxy:
            return [await exchange(proxy, encode(proxy, "GET", path)) for path in ("/info", "/nowhere")]

    for _, headers, body in asyncio.run(run()):
        assert headers["Content-Type"] == "application/json"
        assert headers["Access-Control-Allow-Origin"] == "*"
        assert int(headers["Content-Length"]) == len(body)


@pytest.mark.scenario("Info endpoint requires authentication")
@pytest.mark.parametrize("path", ["/info", "/invoke", "/nowhere"])
@pytest.mark.parametrize("authorization", ["", "Bearer ", "Bearer " + "0" * 64, "Basic {token}", "{token}", "Bearer é"])
def test_without_the_token_every_request_is_unauthorized(path, authorization):
    async def run() -> Any:
        async with TargetProxy(StubTargets(), 1) as proxy:
            line = f"Authorization: {authorization.format(token=proxy.token)}\r\n" if authorization else ""
            return await exchange(proxy, f"GET {path} HTTP/1.1\r\n{line}\r\n".encode("latin-1"))

    status, _, body = asyncio.run(run())
    assert (status, json.loads(body)) == (401, {"error": "Unauthorized"})


@pytest.mark.scenario("Code judge queries proxy info")
def test_info_tells_the_default_target_the_limit_and_the_count():
    info = {"targetName": "judge", "maxCalls": 50, "callCount": 0, "availableTargets": list(StubTargets.names)}
    assert converse(("GET", "/info"), ("POST", "/invoke", {"question": "q"}), ("GET", "/info")) == [
        (200, info),
        (200, answer("judge: q")),
        (200, {**info, "callCount": 1}),
    ]


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/"), ("GET", "/info?x"), ("POST", "/info"), ("GET", "/invoke"), ("PUT", "/invoke")]
)
def test_anything_else_is_not_found(method, path):
    assert converse((method, path)) == [(404, {"error": "Not found"})]


@pytest.mark.scenario("Code judge uses default target when not specified")
def test_the_default_target_is_asked_when_none_is_named():
    targets = StubTargets()
    requests = [{"question": "q"}, {"question": "q", "target": None}, {"question": "q", "target": ""}]
    assert (
        converse(*(("POST", "/invoke", request) for request in requests), targets=targets)
        == [(200, answer("judge: q"))] * 3
    )
    assert targets.asked == [("judge", ProxiedQuestion("q", None, "proxy", 1, 7.5))] * 3


@pytest.mark.scenario("Code judge overrides target for specific call")
def test_another_target_is_asked_when_it_is_named_and_the_call_counts():
    targets = StubTargets()
    request = {"question": "q", "systemPrompt": "s", "evalCaseId": "case", "attempt": 0, "target": "main", "more": 1}
    assert converse(("POST", "/invoke", request), ("POST", "/invoke", request), max_calls=1, targets=targets) == [
        (200, answer("main: q")),
        (429, {"error": "Max calls exceeded (limit: 1)"}),
    ]
    assert targets.asked == [("main", ProxiedQuestion("q", "s", "case", 0, 7.5))]


@pytest.mark.scenario("Code judge specifies unknown target")
@pytest.mark.parametrize(("name", "shown"), [("x", "x"), (5, "5"), (["main"], "['main']")])
def test_an_unknown_target_is_refused_with_those_that_there_are(name, shown):
    refusal = {"error": f"Unknown target '{shown}'. Available: main, judge, broken, unset, odd"}
    assert converse(("POST", "/invoke", {"question": "q", "target": name})) == [(400, refusal)]


@pytest.mark.parametrize("body", [{}, {"question": ""}, {"question": None}, {"question": 5}, [], "x", 5])
def test_a_request_without_a_question_is_refused(body):
    assert converse(("POST", "/invoke", body)) == [(400, {"error": "Missing required field: question"})]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
@pytest.mark.parametrize("path", ["/invoke", "/invokeBatch"])
def test_what_is_no_json_is_refused(path, body):
    [(status, reply)] = converse(("POST", path, body))
    assert status == 400
    assert reply["error"].startswith("Invalid JSON: ")


def test_a_call_that_fails_counts_and_a_request_that_is_refused_does_not():
    requests = [{"question": "q", "target": "x"}, {}, {"question": "q", "target": "unset"}]
    failing = {"question": "q", "target": "broken"}
    replies = converse(
        *(("POST", "/invoke", request) for request in [*requests, failing, failing]), ("GET", "/info"), max_calls=1
    )
    assert [status for status, _ in replies] == [400, 400, 500, 500, 429, 200]
    assert [reply.get("error") for _, reply in replies[2:5]] == [
        "target 'unset' needs an environment variable",
        "the model is down",
        "Max calls exceeded (limit: 1)",
    ]
    assert replies[5][1]["callCount"] == 1


def test_the_limit_is_looked_at_before_the_request():
    replies = converse(("POST", "/invoke", b"{"), ("POST", "/invoke", {}), max_calls=0)
    assert replies == [(429, {"error": "Max calls exceeded (limit: 0)"})] * 2


def test_an_answer_that_json_cannot_hold_is_an_error():
    [(status, reply)] = converse(("POST", "/invoke", {"question": "q", "target": "odd"}))
    assert (status, reply) == (500, {"error": "Object of type object is not JSON serializable"})


def test_messages_have_camel_case_keys_and_user_data_keeps_its_own():
    [(_, reply)] = converse(("POST", "/invoke", {"question": "tools"}))
    assert reply["outputMessages"] == [
        {
            "role": "assistant",
            "content": "judge: tools",
            "toolCalls": [{"tool": "search", "input": {"docId": 1}, "durationMs": 5}],
        }
    ]


def test_a_batch_is_answered_in_order_and_its_failures_one_by_one():
    requests = [
        {"question": "a"},
        {"question": "b", "target": "main"},
        {"question": "c", "target": "x"},
        {"target": "main"},
        "no object",
        {"question": "d", "target": "broken"},
        {"question": "e"},
    ]

    def failure(text: str) -> dict[str, Any]:
        return {"outputMessages": [], "rawText": f"Error: {text}"}

    replies = converse(("POST", "/invokeBatch", {"requests": requests}), ("GET", "/info"))
    assert replies[0] == (
        200,
        {
            "responses": [
                answer("judge: a"),
                answer("main: b"),
                failure("Unknown target 'x'. Available: main, judge, broken, unset, odd"),
                failure("Missing required field: question"),
                failure("Missing required field: question"),
                failure("the model is down"),
                answer("judge: e"),
            ]
        },
    )
    assert replies[1][1]["callCount"] == 4


@pytest.mark.parametrize("body", [{}, {"requests": None}, {"requests": {}}, []])
def test_a_batch_without_requests_is_refused(body):
    refusal = {"error": "Missing required field: requests (array)"}
    assert converse(("POST", "/invokeBatch", body)) == [(400, refusal)]


def test_an_empty_batch_has_no_responses():
    assert converse(("POST", "/invokeBatch", {"requests": []}), max_calls=0) == [(200, {"responses": []})]


def test_a_batch_that_would_exceed_the_limit_is_not_begun():
    batch = {"requests": [{"question": "q"}, {}, {"question": "q"}]}
    replies = converse(
        ("POST", "/invoke", {"question": "q"}), ("POST", "/invokeBatch", batch), ("GET", "/info"), max_calls=3
    )
    assert replies[1] == (429, {"error": "Batch would exceed max calls (current: 1, batch: 3, limit: 3)"})
    assert replies[2][1]["callCount"] == 1


def test_calls_at_the_same_time_do_not_exceed_the_limit():
    async def run() -> list[int]:
        async with TargetProxy(StubTargets(), 3) as proxy:
            single = [exchange(proxy, encode(proxy, "POST", "/invoke", {"question": "q"})) for _ in range(10)]
            return sorted([status for status, _, _ in await asyncio.gather(*single)])

    assert asyncio.run(run()) == [200] * 3 + [429] * 7


# --- reading requests


def test_a_body_may_come_in_chunks():
    async def run() -> Any:
        async with TargetProxy(StubTargets(), 1) as proxy:
            head = f"POST /invoke HTTP/1.1\r\nauthorization: Bearer {proxy.token}\r\nTransfer-Encoding: chunked\r\n\r\n"
            chunks = b'd;x=y\r\n{"question": \r\n4\r\n"q"}\r\n0\r\nTrailer: t\r\n\r\n'
            return await exchange(proxy, head.encode() + chunks)

    status, _, body = asyncio.run(run())
    assert (status, json.loads(body)) == (200, answer("judge: q"))


def test_who_asks_before_sending_a_body_is_told_to_go_on():
    async def run() -> bytes:
        async with TargetProxy(StubTargets(), 1) as proxy:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
            body = b'{"question": "q"}'
            head = encode(proxy, "POST", "/invoke", body).removesuffix(b"\r\n" + body)
            writer.write(head + b"Expect: 100-continue\r\n\r\n")
            told = await reader.readuntil(b"\r\n\r\n")
            writer.write(body)
            data = told + await reader.read()
            writer.close()
            await writer.wait_closed()
            return data

    data = asyncio.run(run())
    assert data.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


def test_a_large_question_and_a_large_answer_go_through():
    question = "ü" * 2_000_000
    [(status, reply)] = converse(("POST", "/invoke", {"question": question}))
    assert status == 200
    assert reply["rawText"] == f"judge: {question}"


def test_a_body_beyond_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(target_proxy, "BODY_LIMIT", 100)
    assert converse(("POST", "/invoke", {"question": "q" * 50}), ("POST", "/invoke", {"question": "q" * 500})) == [
        (200, answer("judge: " + "q" * 50)),
        (413, {"error": HTTPStatus.REQUEST_ENTITY_TOO_LARGE.phrase}),
    ]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET /info\r\n\r\n",
        b"POST /invoke HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST /invoke HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /invoke HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /info HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_http_is_a_bad_request(request_bytes):
    async def run() -> Any:
        async with TargetProxy(StubTargets(), 1) as proxy:
            return await exchange(proxy, request_bytes)

    status, _, body = asyncio.run(run())
    assert (status, json.loads(body)) == (400, {"error": "Bad Request"})


@settings(deadline=None, max_examples=tries(25, 50))
@given(st.binary(max_size=200), st.sampled_from([b"", b"\r\n\r\n"]))
def test_bytes_of_any_kind_do_not_bring_the_proxy_down(noise, ending):
    async def run() -> Any:
        async with TargetProxy(StubTargets(), 1) as proxy:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
            writer.write(noise + ending)
            writer.write_eof()
            await reader.read()
            writer.close()
            return await exchange(proxy, encode(proxy, "GET", "/info"))

    assert asyncio.run(run())[0] == 200


# --- closing


def test_nobody_can_connect_once_it_is_closed():
    async def run() -> str:
        async with TargetProxy(StubTargets(), 1) as proxy:
            return proxy.url

    url = asyncio.run(run())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=5)


def test_a_call_in_flight_is_cancelled_and_told_that_the_proxy_shuts_down():
    async def run() -> Any:
        targets = StubTargets()
        async with TargetProxy(targets, 1) as proxy:
            request = encode(proxy, "POST", "/invoke", {"question": "hang"})
            reply = asyncio.create_task(exchange(proxy, request))
            await targets.started.wait()
        assert targets.cancelled
        status, _, body = await reply
        return status, json.loads(body)

    assert asyncio.run(run()) == (503, {"error": "Proxy is shutting down"})


def test_connections_that_say_nothing_are_closed_too():
    async def run() -> bytes:
        async with TargetProxy(StubTargets(), 1) as proxy:
            port = int(proxy.url.rpartition(":")[2])
            silent, writer = await asyncio.open_connection("127.0.0.1", port)
            _, half = await asyncio.open_connection("127.0.0.1", port)
            half.write(b"POST /invoke HTTP/1.1\r\nContent-Length: 10\r\n\r\n{")
            await exchange(proxy, encode(proxy, "GET", "/info"))
        said = await silent.read()
        for each in (writer, half):
            each.transport.abort()
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
        return said

    assert b"503" in asyncio.run(run())


def test_who_reads_no_answer_does_not_hold_the_proxy_up():
    async def run() -> None:
        targets = StubTargets()
        async with TargetProxy(targets, 1) as proxy:
            request = encode(proxy, "POST", "/invoke", {"question": "q" * 20_000_000})
            _, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]), limit=1000)
            writer.write(request)
            await writer.drain()
            await targets.started.wait()
        writer.transport.abort()

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_client_that_leaves_leaves_no_trace(caplog):
    async def run() -> Any:
        async with TargetProxy(StubTargets(), 5) as proxy:
            for _ in range(3):
                _, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
                writer.write(encode(proxy, "POST", "/invoke", {"question": "q"})[:-3])
                writer.transport.abort()
            return await exchange(proxy, encode(proxy, "GET", "/info"))

    assert asyncio.run(run())[0] == 200
    assert caplog.records == []


def test_a_system_without_a_port_to_give_is_an_error(monkeypatch):
    async def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    async def run() -> None:
        async with TargetProxy(StubTargets(), 5):
            pytest.fail("it should not open")

    monkeypatch.setattr(asyncio, "start_server", refuse)
    with pytest.raises(EvaluatorError) as caught:
        asyncio.run(run())
    assert str(caught.value) == "the target proxy could not be started on 127.0.0.1: Permission denied"
    assert caught.value.kind == "network"


# --- the text of an answer


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ((), None),
        ((Message("user", "u"),), None),
        ((Message("assistant", "a"), Message("assistant", "b"), Message("tool", "t")), "b"),
        ((Message("assistant", "a"), Message("assistant")), "a"),
        ((Message("assistant", ""),), ""),
        ((Message("assistant", None),), None),
        ((Message("assistant", {"text": "x"}),), None),
        ((Message("assistant", ["s", {"type": "image"}, {"text": "x"}, {"text": "y"}]),), "x"),
        ((Message("assistant", "a"), Message("assistant", [{"type": "image"}])), "a"),
    ],
)
def test_the_raw_text_is_that_of_the_last_assistant_message_that_has_one(messages, text):
    assert raw_text(messages) == text


# --- code judges


CALLS = """
import http.client, json, os, sys
url, token = os.environ["AGENTV_TARGET_PROXY_URL"], os.environ["AGENTV_TARGET_PROXY_TOKEN"]
connection = http.client.HTTPConnection(url.removeprefix("http://"))
connection.request("POST", "/invoke", json.dumps({"question": "q"}), {"Authorization": "Bearer " + token})
reply = json.load(connection.getresponse())
print(token, file=sys.stderr)
"""


TWO_CALLS = Proxy(max_calls=2)


def judge(tmp_path, code: str, target: Proxy | None = TWO_CALLS, timeout_seconds: float = 30) -> Score:
    (tmp_path / "judge.py").write_text(code)
    judge = CodeJudge(script=(sys.executable, "judge.py"), cwd=str(tmp_path), target=target)
    case = EvalCase("c", "d", "/e.yaml", 1, "o", "q", (), ())
    services = Services(environment={"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, targets=StubTargets())
    context = Context(case, Prompt("q"), "answer", timeout_seconds=timeout_seconds, services=services)
    return asyncio.run(judge.evaluate(context))


def test_the_record_tells_how_many_calls_a_judge_made(tmp_path):
    score = judge(tmp_path, CALLS + 'print(json.dumps({"score": 1, "hits": [reply["rawText"]]}))')
    assert score.hits == ("judge: q",)
    assert score.request == {
        "script": [sys.executable, "judge.py"],
        "cwd": str(tmp_path),
        "target_proxy": {"call_count": 1, "max_calls": 2},
    }


def test_a_judge_without_target_has_no_proxy(tmp_path):
    code = 'import json, os\nprint(json.dumps({"score": not any("PROXY" in name for name in os.environ) and 1}))'
    score = judge(tmp_path, code, target=None)
    assert score.value == 1
    assert "target_proxy" not in score.request


@pytest.mark.parametrize(
    "code",
    [
        'print(json.dumps({"score": 1, "hits": [token], "details": {"env": dict(os.environ)}}))',
        "print(token)",
    ],
)
def test_the_token_is_masked_in_what_a_judge_prints(tmp_path, code):
    score = judge(tmp_path, CALLS + code)
    assert "***" in repr(score)
    assert not any(len(word) == 64 for word in repr(score).replace("'", " ").replace("\\n", " ").split())


def test_the_token_is_masked_in_the_reason_of_a_judge_that_fails(tmp_path):
    with pytest.raises(EvaluatorError) as caught:
        judge(tmp_path, CALLS + "print(token)\nsys.exit(2)")
    script = f"{sys.executable} judge.py"
    assert str(caught.value) == f"Code evaluator exited with code 2 (script: {script}): ***"
    assert caught.value.output == "***\n"


def test_a_judge_that_times_out_in_a_call_has_its_call_cancelled(tmp_path):
    with pytest.raises(EvaluatorError) as caught:
        judge(tmp_path, CALLS.replace('"question": "q"', '"question": "hang"'), timeout_seconds=1)
    assert caught.value.kind == "timeout"


def test_a_judge_with_target_needs_targets():
    with pytest.raises(EvaluatorError) as caught:
        CodeJudge(name="mine", script=("x",), target=True).prepare(Services())
    assert str(caught.value) == "evaluator 'mine' has `target`, but there are no targets that its script could call"
    assert caught.value.kind == "config"


def test_a_judge_that_is_cancelled_leaves_no_proxy_behind(tmp_path):
    targets = StubTargets()
    (tmp_path / "judge.py").write_text(CALLS.replace('"question": "q"', '"question": "hang"'))
    evaluator = CodeJudge(script=(sys.executable, "judge.py"), cwd=str(tmp_path), target=TWO_CALLS)
    services = Services(environment={"PATH": os.environ["PATH"]}, targets=targets)
    context = Context(EvalCase("c", "d", "/e.yaml", 1, "o", "q", (), ()), Prompt("q"), "answer", services=services)

    async def run() -> set[str]:
        judging = asyncio.create_task(evaluator.evaluate(context))
        await targets.started.wait()
        judging.cancel()
        await asyncio.wait([judging])
        assert judging.cancelled()
        return {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}

    assert asyncio.run(run()) == set()
    assert targets.cancelled
