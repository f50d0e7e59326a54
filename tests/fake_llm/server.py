"""The server: connections, requests, and the reply that each request gets."""

import asyncio
import gzip
import json
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fake_llm import embedding_wire
from fake_llm.records import Answer, Reply, Request
from fake_llm.wires import Wire, wire_of


class FakeLlm:
    """Use as a context manager; the server runs on a loop in a thread of its own, at a port that was free.

    Its methods may be called from any thread.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        """All that arrived, also those that ask no model."""
        self.url = ""
        self.connections = 0
        self.in_flight: Counter[str] = Counter()
        self.most_in_flight: Counter[str] = Counter()
        """By script."""
        self._scripts: dict[str, list[Reply]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-llm", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._changed = threading.Condition()
        """Guards requests and scripts."""

    def __enter__(self) -> "FakeLlm":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def script(self, name: str, *replies: Reply) -> str:
        """Set the replies to the requests below a base URL, in order; the last one repeats. Returns the URL.

        A reply with `calls` is done with when a request has brought the results of all of them.
        """
        with self._changed:
            self._scripts[name] = list(replies) or [Reply()]
        return f"{self.url}/{name}"

    def asked(self, name: str) -> list[Request]:
        """Return a script's requests for an answer."""
        with self._changed:
            return [request for request in self.requests if request.script == name and request.is_question]

    def wait_for(self, name: str, seconds: float = 10, requests: int = 1) -> None:
        """Wait until so many requests of a script have arrived."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.asked(name)) >= requests, seconds)

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=2**26, backlog=1024)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            # Cancelled tasks of a server must not raise: asyncio would print their cancellation.
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._serve_one(reader, writer):
                    pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; False: the connection is done with."""
        request = await _read_request(reader)
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        if not request.is_question:
            writer.write(_harmless(request))
            await writer.drain()
            return True
        wire = wire_of(request.path)
        results = 0 if embedding_wire.is_asked(request.path) else len(wire.tool_results(request.body))
        reply = self._choose(request, results)
        await self._wait(request.script, reply)
        calls = reply.pending_calls(results)
        if reply.fault == "hang" and not calls:
            await reader.read()  # until the client gives up
            return False
        writer.write(_response(request, wire, reply, results))
        await writer.drain()
        return bool(calls) or reply.fault not in ("cut", "cut_body")

    def _choose(self, request: Request, results: int) -> Reply:
        with self._changed:
            replies = self._scripts.get(request.script, [Reply()])
            fitting = [reply for reply in replies if request.holds(reply.when)]
            if not fitting:
                return Reply(status=400, message="no reply is scripted for this conversation")
            if len(fitting) > 1 and not fitting[0].pending_calls(results):
                replies.remove(fitting[0])
            return fitting[0]

    async def _wait(self, script: str, reply: Reply) -> None:
        self.in_flight[script] += 1
        self.most_in_flight[script] = max(self.most_in_flight[script], self.in_flight[script])
        try:
            await asyncio.sleep(reply.delay_seconds)
            while self.most_in_flight[script] < reply.waits_for:  # noqa: ASYNC110 - no event counts
                await asyncio.sleep(0.01)
        finally:
            self.in_flight[script] -= 1


async def _read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    method, target, _ = head[0].split(" ")
    parts = urlsplit(target)
    script, _, path = parts.path.lstrip("/").partition("/")
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return Request(script, method, f"/{path}", query, headers, json.loads(body or b"null"))


def _response(request: Request, wire: Wire, reply: Reply, results: int) -> bytes:
    calls = reply.pending_calls(results)
    if calls:
        reply = Reply("", calls=reply.calls, cached_tokens=reply.cached_tokens)
    if reply.fault == "cut":
        return b""
    kind = "application/json"
    if reply.fault in ("empty", "malformed"):
        body = b"" if reply.fault == "empty" else b'{"choices": [{"mess'
    elif reply.status != 200:
        said = f"{reply.message} to the key {request.api_key}"
        body = _json(wire.error(reply.status, said) if reply.content is None else reply.content)
    else:
        model = (request.body or {}).get("model") or request.path.rpartition("/")[2].partition(":")[0]
        content = reply.content
        if content is None and embedding_wire.is_asked(request.path):
            content = embedding_wire.answer(request.body)
        if content is None:
            content = wire.answer(Answer(model, reply.text, calls, reply.cached_tokens))
        kind = "text/event-stream" if request.wants_stream else kind
        body = wire.stream(content) if request.wants_stream else _json(content)
    encoding = {}
    if reply.is_compressed:
        body, encoding = gzip.compress(body), {"content-encoding": "gzip"}
    return _http(
        reply.status, body, {"content-type": kind, **encoding, **reply.headers}, is_cut=reply.fault == "cut_body"
    )


def _harmless(request: Request) -> bytes:
    """Answer what agents ask beside their questions."""
    if request.headers.get("upgrade", "").lower() == "websocket":
        return _http(426, b"", {})  # a Responses API without it
    if request.path.endswith("/count_tokens"):
        return _http(200, _json({"input_tokens": 30}), {"content-type": "application/json"})
    if request.path.endswith("/models"):
        return _http(200, _json({"object": "list", "data": [], "models": []}), {"content-type": "application/json"})
    return _http(200 if request.method == "HEAD" else 404, b"", {})


def _json(content: Any) -> bytes:
    return json.dumps(content).encode()


def _http(status: int, body: bytes, headers: Mapping[str, str], is_cut: bool = False) -> bytes:
    head = [f"HTTP/1.1 {status} Scripted", f"content-length: {len(body)}"]
    head += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*head, "", ""]).encode() + (body[: len(body) // 2] if is_cut else body)
