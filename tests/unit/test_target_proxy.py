"""Nothing of the target proxy stays open, whatever is sent. `tests/corpus/code-judge-proxy-wire` shows its replies."""

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
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.context import Context, ProxiedQuestion, Services
from pytest_agentv.evaluators.script import CodeJudge, Proxy, TargetProxy
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import Message
from pytest_agentv.providers.base import ProviderResponse


class StubTargets:
    """One target, which answers with the question, or never."""

    default_name = "judge"
    names = ("judge",)

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = False

    def resolve(self, name: str) -> Callable[[ProxiedQuestion], Awaitable[ProviderResponse]]:
        return self.answer

    async def answer(self, asked: ProxiedQuestion) -> ProviderResponse:
        self.started.set()
        if asked.question == "hang":
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled = True
        return ProviderResponse((Message("assistant", asked.question),))


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


def test_a_body_beyond_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr("pytest_agentv.evaluators.script.BODY_LIMIT", 100)

    async def run() -> list[int]:
        async with opened(5) as proxy:
            bodies = ({"question": "q" * size} for size in (50, 500))
            return [(await exchange(proxy, encode(proxy, "POST", "/invoke", body)))[0] for body in bodies]

    assert asyncio.run(run()) == [200, 413]


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
