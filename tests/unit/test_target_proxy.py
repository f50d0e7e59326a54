"""The target proxy as a raw HTTP client sees it: every row of its wire, and that nothing of it stays open."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import tries

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import EvaluatorError, ProviderError, TargetError
from pytest_agentv.evaluators import script as target_proxy
from pytest_agentv.evaluators.context import Context, ProxiedQuestion, Services
from pytest_agentv.evaluators.script import CodeJudge, Proxy, TargetProxy, raw_text
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import Message, ToolCall
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


CONTEXT = Context(EvalCase("c", "d", "/e.yaml", 1, "o", "q", (), ()), Prompt("q"), "answer", timeout_seconds=7.5)


def opened(max_calls: int, targets: StubTargets | None = None) -> TargetProxy:
    return TargetProxy(targets or StubTargets(), max_calls, CONTEXT)


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
    head = f"{method} {path} HTTP/1.1\r\nhost: x\r\nConnection: close\r\n"
    head += f"authorization: Bearer {token or proxy.token}\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def converse(*requests: tuple[Any, ...], max_calls: int = 50, targets: StubTargets | None = None) -> list[Any]:
    """Send requests one after another to one proxy; return (status, JSON) of each."""

    async def run() -> list[Any]:
        async with opened(max_calls, targets) as proxy:
            found = []
            for request in requests:
                status, _, body = await exchange(proxy, encode(proxy, *request))
                found.append((status, json.loads(body) if body else None))
            return found

    return asyncio.run(run())


def answer(text: str) -> dict[str, Any]:
    return {"outputMessages": [{"role": "assistant", "content": text}], "rawText": text}


# --- the wire, row by row

NO_QUESTION, NO_REQUESTS = "Missing required field: question", "Missing required field: requests (array)"
UNKNOWN = "Unknown target '{}'. Available: main, judge, broken, unset, odd"


@pytest.mark.scenario("Info endpoint requires authentication")
@pytest.mark.parametrize("path", ["/info", "/invoke", "/nowhere"])
@pytest.mark.parametrize("authorization", ["", "Bearer ", "Bearer " + "0" * 64, "Basic {token}", "{token}", "Bearer é"])
def test_without_the_token_every_request_is_unauthorized(path, authorization):
    async def run() -> Any:
        async with opened(1) as proxy:
            line = f"Authorization: {authorization.format(token=proxy.token)}\r\n" if authorization else ""
            return await exchange(proxy, f"GET {path} HTTP/1.1\r\nHost: x\r\n{line}\r\n".encode("latin-1"))

    status, _, body = asyncio.run(run())
    assert (status, json.loads(body)) == (401, {"error": "Unauthorized"})


@pytest.mark.parametrize(
    ("request_line", "body", "status", "reply"),
    [
        *(
            (line, None, 404, "Not found")
            for line in ("GET /", "GET /info?x", "POST /info", "GET /invoke", "PUT /invoke")
        ),
        *(
            ("POST /invoke", {"question": "q", **named}, 200, answer("judge: q"))
            for named in ({}, {"target": None}, {"target": ""})
        ),
        *(
            ("POST /invoke", {"question": "q", "target": name}, 400, UNKNOWN.format(name))
            for name in ("x", 5, ["main"])
        ),
        *(("POST /invoke", body, 400, NO_QUESTION) for body in ({}, {"question": ""}, {"question": 5}, [], "x", 5)),
        *(("POST /invokeBatch", body, 400, NO_REQUESTS) for body in ({}, {"requests": None}, {"requests": {}}, [])),
        *(
            (f"POST /{path}", body, 400, "Invalid JSON: ")
            for path in ("invoke", "invokeBatch")
            for body in (b"", b"{", b"\xff", b"[" * 100_000)
        ),
        ("POST /invokeBatch", {"requests": []}, 200, {"responses": []}),
        ("POST /invoke", {"question": "q", "target": "odd"}, 500, "Object of type object is not JSON serializable"),
        ("POST /invoke", {"question": "ü" * 2_000_000}, 200, answer("judge: " + "ü" * 2_000_000)),
    ],
)
def test_a_request_and_its_reply(request_line, body, status, reply):
    ((found, given),) = converse((*request_line.split(), body))
    assert found == status
    assert given["error"].startswith(reply) if isinstance(reply, str) else given == reply


def test_every_call_to_a_target_counts_and_a_refused_request_does_not():
    targets = StubTargets()
    asked = {"question": "q", "systemPrompt": "s", "evalCaseId": "case", "attempt": 0, "target": "main", "more": 1}
    bodies = [
        {"question": "q", "target": "x"},
        {},
        {"question": "q", "target": "unset"},
        asked,
        {"question": "q", "target": "broken"},
    ]
    replies = converse(
        *(("POST", "/invoke", body) for body in [*bodies, b"{"]), ("GET", "/info"), max_calls=2, targets=targets
    )
    assert [status for status, _ in replies] == [400, 400, 500, 200, 500, 429, 200]
    assert [reply.get("error") for _, reply in replies[2:6]] == [
        "target 'unset' needs an environment variable",
        None,
        "the model is down",
        "Max calls exceeded (limit: 2)",
    ]
    info = {"targetName": "judge", "maxCalls": 2, "callCount": 2, "availableTargets": list(StubTargets.names)}
    assert replies[6][1] == info
    assert targets.asked[0] == ("main", ProxiedQuestion("q", "s", "case", 0, CONTEXT))


def test_a_batch_is_answered_in_order_and_its_failures_one_by_one():
    def failure(text: str) -> dict[str, Any]:
        return {"outputMessages": [], "rawText": f"Error: {text}"}

    told = [
        ({"question": "a"}, answer("judge: a")),
        ({"question": "c", "target": "x"}, failure(UNKNOWN.format("x"))),
        ({"target": "main"}, failure(NO_QUESTION)),
        ("no object", failure(NO_QUESTION)),
        ({"question": "d", "target": "broken"}, failure("the model is down")),
        ({"question": "b", "target": "main"}, answer("main: b")),
    ]
    requests, responses = zip(*told, strict=True)
    replies = converse(("POST", "/invokeBatch", {"requests": requests}), ("GET", "/info"))
    assert replies[0] == (200, {"responses": list(responses)})
    assert replies[1][1]["callCount"] == 3


def test_a_batch_that_would_exceed_the_limit_is_not_begun():
    batch = {"requests": [{"question": "q"}, {}, {"question": "q"}]}
    replies = converse(
        ("POST", "/invoke", {"question": "q"}), ("POST", "/invokeBatch", batch), ("GET", "/info"), max_calls=3
    )
    assert replies[1] == (429, {"error": "Batch would exceed max calls (current: 1, batch: 3, limit: 3)"})
    assert replies[2][1]["callCount"] == 1


def test_calls_at_the_same_time_do_not_exceed_the_limit():
    async def run() -> list[int]:
        async with opened(3) as proxy:
            single = [exchange(proxy, encode(proxy, "POST", "/invoke", {"question": "q"})) for _ in range(10)]
            return sorted([status for status, _, _ in await asyncio.gather(*single)])

    assert asyncio.run(run()) == [200] * 3 + [429] * 7


# --- reading requests


def test_a_body_may_come_in_chunks():
    async def run() -> Any:
        async with opened(1) as proxy:
            head = f"POST /invoke HTTP/1.1\r\nHost: x\r\nauthorization: Bearer {proxy.token}\r\n"
            head += "Transfer-Encoding: chunked\r\n\r\n"
            chunks = b'd;x=y\r\n{"question": \r\n4\r\n"q"}\r\n0\r\nTrailer: t\r\n\r\n'
            return await exchange(proxy, head.encode() + chunks)

    status, _, body = asyncio.run(run())
    assert (status, json.loads(body)) == (200, answer("judge: q"))


def test_who_asks_before_sending_a_body_is_told_to_go_on():
    async def run() -> bytes:
        async with opened(1) as proxy:
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


def test_a_body_beyond_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(target_proxy, "BODY_LIMIT", 100)

    async def run() -> list[int]:
        async with opened(5) as proxy:
            bodies = ({"question": "q" * size} for size in (50, 500))
            return [(await exchange(proxy, encode(proxy, "POST", "/invoke", body)))[0] for body in bodies]

    assert asyncio.run(run()) == [200, 413]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"POST /invoke HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST /invoke HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /invoke HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /info HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_http_is_a_bad_request(request_bytes):
    async def run() -> Any:
        async with opened(1) as proxy:
            return await exchange(proxy, request_bytes)

    assert asyncio.run(run())[0] == 400


@settings(deadline=None, max_examples=tries(25, 50))
@given(st.binary(max_size=200), st.sampled_from([b"", b"\r\n\r\n"]))
def test_bytes_of_any_kind_do_not_bring_the_proxy_down(noise, ending):
    async def run() -> Any:
        async with opened(1) as proxy:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
            writer.write(noise + ending)
            writer.write_eof()
            await reader.read()
            writer.close()
            return await exchange(proxy, encode(proxy, "GET", "/info"))

    assert asyncio.run(run())[0] == 200


# --- closing


def test_connections_that_say_nothing_are_closed_too():
    async def run() -> None:
        async with opened(1) as proxy:
            port = int(proxy.url.rpartition(":")[2])
            silent, writer = await asyncio.open_connection("127.0.0.1", port)
            _, half = await asyncio.open_connection("127.0.0.1", port)
            half.write(b"POST /invoke HTTP/1.1\r\nContent-Length: 10\r\n\r\n{")
            await exchange(proxy, encode(proxy, "GET", "/info"))
        assert await silent.read() == b""
        for each in (writer, half):
            each.transport.abort()
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    asyncio.run(run())


def test_who_reads_no_answer_does_not_hold_the_proxy_up():
    async def run() -> None:
        targets = StubTargets()
        async with opened(1, targets) as proxy:
            request = encode(proxy, "POST", "/invoke", {"question": "q" * 20_000_000})
            _, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]), limit=1000)
            writer.write(request)
            await writer.drain()
            await targets.started.wait()
        writer.transport.abort()

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_system_without_a_port_to_give_is_an_error(monkeypatch):
    async def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    async def run() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "create_server", refuse)
        async with opened(5):
            pytest.fail("it should not open")

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


HANGS = """
import json, os, urllib.request
url, token = os.environ["AGENTV_TARGET_PROXY_URL"], os.environ["AGENTV_TARGET_PROXY_TOKEN"]
headers = {"Authorization": "Bearer " + token}
urllib.request.urlopen(urllib.request.Request(url + "/invoke", json.dumps({"question": "hang"}).encode(), headers))
"""


def test_a_judge_that_is_cancelled_leaves_no_proxy_behind(tmp_path):
    targets = StubTargets()
    evaluator = CodeJudge(script=(sys.executable, "-c", HANGS), cwd=str(tmp_path), target=Proxy(max_calls=2))
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
