"""The target proxy: lets a judge script call the run's targets over HTTP on loopback (agentv-formats 7.1).

The key names of its wire are AgentV's, so that judges written for AgentV's own SDK run unchanged.
"""

import asyncio
import hmac
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self, TypeAlias

from pytest_agentv.errors import EvaluatorError, ProviderError
from pytest_agentv.evaluators.context import ProxiedQuestion, ProxiedTargets, camel_case_message, current_meter
from pytest_agentv.model.base import Json, JsonObject, Record, mapping
from pytest_agentv.model.messages import Message
from pytest_agentv.providers.base import ProviderResponse

BODY_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a request's body."""

URL_VARIABLE: Final = "AGENTV_TARGET_PROXY_URL"
TOKEN_VARIABLE: Final = "AGENTV_TARGET_PROXY_TOKEN"  # noqa: S105 - the name of the variable, not a token

_HEADERS: Final = (
    "Content-Type: application/json\r\n"
    "Access-Control-Allow-Origin: *\r\n"
    "Access-Control-Allow-Methods: GET, POST, OPTIONS\r\n"
    "Access-Control-Allow-Headers: Content-Type, Authorization\r\n"
    "Connection: close\r\n"
)


@dataclass(frozen=True, slots=True)
class HttpRequest(Record):
    """One request, read whole."""

    method: str
    path: str
    """With its query, as it was sent."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class HttpResponse(Record):
    """A status and the JSON text that goes with it; 204 has none."""

    status: int
    body: str = ""


Respond: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]


class _RefusedError(Exception):
    """A request that is refused. The sender gets the text."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class TargetProxy:
    """The proxy of one run of a judge script, open as long as its context is."""

    def __init__(
        self,
        targets: ProxiedTargets,
        max_calls: int,
        timeout_seconds: float | None = None,
        *,
        answer: int = 0,
        reruns: int = 0,
        twin: tuple[int, ...] = (),
    ) -> None:
        """Prepare a proxy.

        Args:
            targets: What can be called.
            max_calls: How many calls the script may make.
            timeout_seconds: The longest that one call may take; None: no limit.
            answer: The number of the answer that is judged.
            reruns: How often its case was asked before in this run.
            twin: The numbers of the script among equal members of its composites.
        """
        self._answer = answer
        self._reruns = reruns
        self._twin = twin
        self._meter = current_meter()
        self.max_calls = max_calls
        self.call_count = 0
        self.token = secrets.token_hex(32)
        self.url = ""
        self._targets = targets
        self._timeout_seconds = timeout_seconds
        self._server = LoopbackServer(self.respond, _error(503, "Proxy is shutting down"))
        self._routes = {
            ("GET", "/info"): self._info,
            ("POST", "/invoke"): self._invoke,
            ("POST", "/invokeBatch"): self._invoke_batch,
        }

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which the script finds the proxy."""
        return {URL_VARIABLE: self.url, TOKEN_VARIABLE: self.token}

    async def __aenter__(self) -> Self:
        """Open the proxy. Raises `EvaluatorError` (kind `network`) when the system has no port to give."""
        try:
            self.url = await self._server.start()
        except OSError as error:
            message = f"the target proxy could not be started on 127.0.0.1: {error.strerror or error}"
            raise EvaluatorError(message, "network") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._server.stop()

    async def respond(self, request: HttpRequest) -> HttpResponse:
        """Answer one request. A failure becomes a response; only a cancellation is raised."""
        if request.method == "OPTIONS":
            return HttpResponse(204)
        authorization = request.headers.get("authorization", "")
        if not hmac.compare_digest(authorization.encode(), f"Bearer {self.token}".encode()):
            return _error(401, "Unauthorized")
        route = self._routes.get((request.method, request.path))
        if route is None:
            return _error(404, "Not found")
        try:
            return HttpResponse(200, json.dumps(await route(request.body), allow_nan=False))
        except _RefusedError as refusal:
            return _error(refusal.status, str(refusal))
        except Exception as error:  # noqa: BLE001 - providers of plugins may raise anything; the script gets the error
            return _error(500, str(error) or type(error).__name__)

    async def _info(self, _body: bytes) -> Json:
        """Source: scenario "Code judge queries proxy info"."""
        return {
            "targetName": self._targets.default_name,
            "maxCalls": self.max_calls,
            "callCount": self.call_count,
            "availableTargets": list(self._targets.names),
        }

    async def _invoke(self, body: bytes) -> Json:
        self._check_limit()
        return await self._ask(_parse(body))

    async def _invoke_batch(self, body: bytes) -> Json:
        """Ask one after another. A failure of one request is the answer to that request only."""
        batch = mapping(_parse(body)).get("requests")
        if not isinstance(batch, list):
            raise _RefusedError(400, "Missing required field: requests (array)")
        if self.call_count + len(batch) > self.max_calls:
            counts = f"current: {self.call_count}, batch: {len(batch)}, limit: {self.max_calls}"
            raise _RefusedError(429, f"Batch would exceed max calls ({counts})")
        return {"responses": [await self._ask_or_explain(request) for request in batch]}

    async def _ask_or_explain(self, request: Json) -> Json:
        try:
            return await self._ask(request)
        except Exception as error:  # noqa: BLE001 - as in `respond`
            return {"outputMessages": [], "rawText": f"Error: {str(error) or type(error).__name__}"}

    async def _ask(self, request: Json) -> Json:
        """Call a target. Failed calls count; refused requests do not."""
        self._check_limit()  # in a batch too: another request may have used the last calls meanwhile
        fields = mapping(request)
        question = fields.get("question")
        if not isinstance(question, str) or not question:
            raise _RefusedError(400, "Missing required field: question")
        # Source: scenarios "Code judge overrides target for specific call", "Code judge specifies unknown target".
        name = fields.get("target") or self._targets.default_name
        if name not in self._targets.names:
            raise _RefusedError(400, f"Unknown target '{name}'. Available: {', '.join(self._targets.names)}")
        target = self._targets.resolve(str(name))
        self.call_count += 1
        response: ProviderResponse | None = None
        try:
            response = await target(self._question(question, fields))
        finally:
            self._meter.add_reply(response)
        if response.error is not None:
            raise ProviderError(response.error, response.error_kind)
        messages = response.output_messages or ()
        answer = {"outputMessages": [camel_case_message(message) for message in messages]}
        text = raw_text(messages)
        return answer if text is None else {**answer, "rawText": text}

    def _question(self, question: str, fields: JsonObject) -> ProxiedQuestion:
        system_prompt, eval_id, attempt = (fields.get(key) for key in ("systemPrompt", "evalCaseId", "attempt"))
        return ProxiedQuestion(
            question,
            system_prompt=system_prompt if isinstance(system_prompt, str) else None,
            eval_id=eval_id if isinstance(eval_id, str) and eval_id else "proxy",
            attempt=attempt if isinstance(attempt, int) and attempt >= 0 else 1,
            timeout_seconds=self._timeout_seconds,
            answer=self._answer,
            reruns=self._reruns,
            twin=self._twin,
        )

    def _check_limit(self) -> None:
        if self.call_count >= self.max_calls:
            raise _RefusedError(429, f"Max calls exceeded (limit: {self.max_calls})")


def raw_text(messages: tuple[Message, ...]) -> str | None:
    """Return the text of the last assistant message that has one: its content, or the first `text` among its parts."""
    for message in reversed(messages):
        if message.role != "assistant":
            continue
        if isinstance(message.content, str):
            return message.content
        parts = message.content if isinstance(message.content, list) else []
        texts = (part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
        text: str | None = next(texts, None)
        if text is not None:
            return text
    return None


def _parse(body: bytes) -> Json:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _RefusedError(400, f"Invalid JSON: {error}") from None


def _error(status: int, message: str) -> HttpResponse:
    return HttpResponse(status, json.dumps({"error": message}))


class HttpError(Exception):
    """A request that cannot be read."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class LoopbackServer:
    """Serves HTTP/1.1 on 127.0.0.1, at a port that the system chooses. Used on one event loop only.

    A connection has one request, and none is left open when the server stops.
    """

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
