"""A server on loopback that speaks the chat APIs of Azure, OpenAI, Anthropic and Gemini, and fails on request.

Each script has a base URL of its own, so that one server plays the models of many targets at once.
"""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

KEY_HEADERS = ("api-key", "x-api-key", "x-goog-api-key", "authorization")


@dataclass(frozen=True)
class Reply:
    """What the server does with one request."""

    text: str = "hello"
    status: int = 200
    message: str = "the server says no"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_seconds: float = 0
    fault: Literal["malformed", "empty", "cut", "cut_body"] | None = None
    """`cut` closes the connection instead of an answer, `cut_body` in the middle of one."""
    cached_tokens: int = 0
    content: Any = None
    """Replaces the whole body of an answer."""


@dataclass(frozen=True)
class Request:
    """What arrived."""

    script: str
    path: str
    """Without the script's part."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any

    @property
    def api_key(self) -> str | None:
        return next((self.headers[name] for name in KEY_HEADERS if name in self.headers), None)


class FakeLlm:
    """Use as a context manager; the server runs on a loop in a thread of its own."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
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
        self._arrived = threading.Condition()

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
        """Set the replies to the requests below a base URL, in order; the last one repeats. Returns the URL."""
        self._scripts[name] = list(replies) or [Reply()]
        return f"{self.url}/{name}"

    def asked(self, name: str) -> list[Request]:
        return [request for request in self.requests if request.script == name]

    def wait_for(self, name: str, seconds: float = 10) -> None:
        """Wait until a script's first request has arrived."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: self.asked(name), seconds)

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
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = _request(head[0].split()[1], headers, body)
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        replies = self._scripts.get(request.script, [Reply()])
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        script = request.script
        self.in_flight[script] += 1
        self.most_in_flight[script] = max(self.most_in_flight[script], self.in_flight[script])
        try:
            await asyncio.sleep(reply.delay_seconds)
        finally:
            self.in_flight[script] -= 1
        writer.write(_response(request, reply))
        await writer.drain()
        return reply.fault not in ("cut", "cut_body")


def _request(target: str, headers: Mapping[str, str], body: bytes) -> Request:
    parts = urlsplit(target)
    _, script, path = parts.path.split("/", 2)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return Request(script, f"/{path}", query, headers, json.loads(body or b"null"))


def _response(request: Request, reply: Reply) -> bytes:
    if reply.fault == "cut":
        return b""
    body = _body(request, reply)
    head = [f"HTTP/1.1 {reply.status} Scripted", "content-type: application/json", f"content-length: {len(body)}"]
    head += [f"{name}: {value}" for name, value in reply.headers.items()]
    if reply.fault == "cut_body":
        body = body[: len(body) // 2]
    return "\r\n".join([*head, "", ""]).encode() + body


def _body(request: Request, reply: Reply) -> bytes:
    if reply.fault == "empty":
        return b""
    if reply.fault == "malformed":
        return b'{"choices": [{"mess'
    api = _api(request.path)
    if reply.status != 200:
        return json.dumps(_ERRORS[api](reply.status, f"{reply.message} to the key {request.api_key}")).encode()
    return json.dumps(_ANSWERS[api](request, reply) if reply.content is None else reply.content).encode()


def _api(path: str) -> str:
    if path.endswith("/messages"):
        return "anthropic"
    return "gemini" if ":generateContent" in path else "openai"


def _openai_answer(request: Request, reply: Reply) -> Any:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": request.body["model"],
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": reply.text}},
        ],
        "usage": {
            "prompt_tokens": 30,
            "completion_tokens": 5,
            "total_tokens": 35,
            "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
        },
    }


def _anthropic_answer(request: Request, reply: Reply) -> Any:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request.body["model"],
        "content": [{"type": "text", "text": reply.text}] if reply.text else [],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 30 - reply.cached_tokens,
            "output_tokens": 5,
            "cache_read_input_tokens": reply.cached_tokens,
            "cache_creation_input_tokens": 0,
        },
    }


def _gemini_answer(request: Request, reply: Reply) -> Any:
    return {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": reply.text}]}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {
            "promptTokenCount": 30,
            "candidatesTokenCount": 5,
            "totalTokenCount": 35,
            "cachedContentTokenCount": reply.cached_tokens,
        },
        "modelVersion": request.path.rpartition("/")[2].partition(":")[0],
    }


_ANSWERS: Mapping[str, Callable[[Request, Reply], Any]] = {
    "openai": _openai_answer,
    "anthropic": _anthropic_answer,
    "gemini": _gemini_answer,
}

_ERRORS: Mapping[str, Callable[[int, str], Any]] = {
    "openai": lambda status, text: {
        "error": {"message": text, "type": "invalid_request_error", "code": str(status), "param": None}
    },
    "anthropic": lambda _, text: {"type": "error", "error": {"type": "api_error", "message": text}},
    "gemini": lambda status, text: {"error": {"code": status, "message": text, "status": "UNAVAILABLE"}},
}
