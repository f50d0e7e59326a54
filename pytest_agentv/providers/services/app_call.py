"""One request to an ASGI application in this process, and its reply. Runs on the loop of users."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from pytest_agentv.providers.apis.exchange import HttpReply, HttpRequest
from pytest_agentv.providers.services.lifespan import VERSIONS, App, AsgiMessage
from pytest_agentv.runtime.decoding import Decoder
from pytest_agentv.runtime.reading import READ_LIMIT

HOST = "localhost"


class NoReplyError(Exception):
    """The application gave no complete reply. The text says why."""


async def call_app(app: App, request: HttpRequest, state: Mapping[str, Any]) -> HttpReply:
    """Call an application. Raises `NoReplyError`, and any exception of the application."""
    call = _Call(request)
    try:
        await app(_scope(request, state), call.receive, call.send)
    except Exception:
        if call.is_too_large:
            raise call.too_large() from None
        raise
    return call.reply()


class _Call:
    """The events that the application receives and sends."""

    def __init__(self, request: HttpRequest) -> None:
        self._body: bytes | None = request.content or b""
        self._start: AsgiMessage | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._ended = asyncio.Event()

    @property
    def is_too_large(self) -> bool:
        return self._size > READ_LIMIT

    async def receive(self) -> AsgiMessage:
        """Return the whole body first. After the reply is complete, report that the client has disconnected."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._ended.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body":
            part = bytes(message.get("body", b""))
            self._size += len(part)
            if self.is_too_large:
                raise self.too_large()
            self._parts.append(part)
            if not message.get("more_body", False):
                self._ended.set()

    def too_large(self) -> NoReplyError:
        return NoReplyError(f"its reply is too large: it has more than {READ_LIMIT // 2**20} MiB")

    def reply(self) -> HttpReply:
        if self._start is None:
            raise NoReplyError("it ended without a reply")
        if not self._ended.is_set():
            raise NoReplyError("it ended in the middle of its reply")
        headers = {
            bytes(name).decode("latin-1").lower(): bytes(value).decode("latin-1")
            for name, value in self._start.get("headers", ())
        }
        return HttpReply(int(self._start["status"]), headers, self._content(headers.get("content-encoding", "")))

    def _content(self, encoding: str) -> bytes:
        """Return the body. Some applications compress it without being asked to."""
        try:
            decoder, content = Decoder(encoding), bytearray()
            for piece in decoder.decode(b"".join(self._parts)):
                content += piece
                self._size = len(content)
                if self.is_too_large:
                    raise self.too_large()
            decoder.check_whole()
        except ValueError as error:
            raise NoReplyError(f"its reply cannot be decoded: {error}") from None
        return bytes(content)


def _scope(request: HttpRequest, state: Mapping[str, Any]) -> AsgiMessage:
    parts = urlsplit(request.url)
    path = parts.path or "/"
    body_length = {} if request.content is None else {"content-length": str(len(request.content))}
    headers = {"host": HOST, "user-agent": "pytest-agentv", **body_length, **request.headers}
    return {
        "type": "http",
        "asgi": VERSIONS,
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("ascii", "replace"),
        "query_string": parts.query.encode("ascii", "replace"),
        "root_path": "",
        "headers": [(name.encode("latin-1"), text.encode("utf-8")) for name, text in headers.items()],
        "client": ("127.0.0.1", 0),
        "server": (HOST, 80),
        "state": dict(state),
    }
