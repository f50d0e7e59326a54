"""A small HTTP/1.1 server on loopback: one request per connection, nothing left open when it stops."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, TypeAlias

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record

BODY_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a request's body."""

_HEADERS: Final = (
    "Content-Type: application/json\r\n"
    "Access-Control-Allow-Origin: *\r\n"
    "Access-Control-Allow-Methods: GET, POST, OPTIONS\r\n"
    "Access-Control-Allow-Headers: Content-Type, Authorization\r\n"
    "Connection: close\r\n"
)


@record
class HttpRequest(Record):
    """One request, read whole."""

    method: str
    path: str
    """With its query, as it was sent."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes = b""


@record
class HttpResponse(Record):
    """A status and the JSON text that goes with it; 204 has none."""

    status: int
    body: str = ""


Respond: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]


class HttpError(Exception):
    """A request that cannot be read."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class LoopbackServer:
    """Serves on 127.0.0.1, at a port that the system chooses. Used on one event loop only."""

    def __init__(self, respond: Respond, stopping: HttpResponse) -> None:
        self._respond = respond
        self._stopping = stopping
        """The response to requests that are still open when the server stops."""
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Return the server's URL. Raises `OSError` when the system has no port to give."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Cancel the open requests, and close all connections and the port."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for connection in self._connections:
            if not connection.cancelling():  # a second cancellation would interrupt the clean-up after the first
                connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        try:
            writer.write(_encode(await self._answer(reader, writer)))
            writer.close()
            await writer.wait_closed()
        except asyncio.CancelledError:  # nobody awaits the tasks of a server: raised again, it would be printed
            if not writer.is_closing():
                writer.write(_encode(self._stopping))  # nothing else waits to be sent, so this goes out at once
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client is gone
        finally:
            self._connections.discard(connection)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpResponse:
        if self._server is None:  # it connected while the server was being stopped
            return self._stopping
        try:
            request = await _read_request(reader, writer)
        except HttpError as error:
            return HttpResponse(error.status, f'{{"error": "{error}"}}')
        return await self._respond(request)


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest:
    """Read a request. Raises `HttpError`, or `IncompleteReadError` if the connection ends too early."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first_line, *lines = head.rstrip().split("\r\n")
        method, path, _ = first_line.split(" ")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return HttpRequest(method, path, headers, await _read_body(reader, headers))
    except (ValueError, asyncio.LimitOverrunError):
        raise HttpError(HTTPStatus.BAD_REQUEST) from None


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await _read_exactly(reader, int(headers.get("content-length", "0")), BODY_LIMIT)
    body = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        body += await _read_exactly(reader, size, BODY_LIMIT - len(body))
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # a header after the body
    return bytes(body)


async def _read_exactly(reader: asyncio.StreamReader, size: int, limit: int) -> bytes:
    if size > limit:
        raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return await reader.readexactly(size)


def _encode(response: HttpResponse) -> bytes:
    status = HTTPStatus(response.status)
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\n{_HEADERS}"
    if status == HTTPStatus.NO_CONTENT:
        return f"{head}\r\n".encode()
    body = response.body.encode()
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
