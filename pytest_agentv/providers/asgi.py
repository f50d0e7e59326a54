"""The `asgi` provider: an application of FastAPI, Starlette, Django or the like, asked in this process."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

from pydantic import BeforeValidator, Field

from pytest_agentv.errors import ProviderError
from pytest_agentv.model.kind import expected, filled
from pytest_agentv.providers.api.base import HttpReply, HttpRequest
from pytest_agentv.providers.api.client import TOO_LARGE, RequestError, RequestFailure
from pytest_agentv.providers.base import TargetEnvironment
from pytest_agentv.providers.http import TEMPLATE, Service, ServiceProvider
from pytest_agentv.providers.kind import Sources
from pytest_agentv.providers.python import CallableName
from pytest_agentv.providers.python_calls import call_async
from pytest_agentv.providers.user_modules import import_callable
from pytest_agentv.runtime.files import READ_LIMIT
from pytest_agentv.runtime.user_code import run_in_thread

_LOGGER: Final = logging.getLogger(__name__)
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 10.0
_TOO_LARGE: Final = f"its reply is too large: {TOO_LARGE}"

VERSIONS = {"version": "3.0", "spec_version": "2.3"}

HOST = "localhost"

AsgiMessage: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[
    [AsgiMessage, Callable[[], Awaitable[AsgiMessage]], Callable[[AsgiMessage], Awaitable[None]]], Awaitable[None]
]


def _url_path(value: object) -> str:
    text = filled(value)
    if not text.startswith("/"):
        raise expected("a path that starts with /")
    return text


class Asgi(Service):
    """An ASGI application, asked in the pytest process."""

    kind = "asgi"

    app: CallableName = Field(description="package.module:app or path/to/file.py:app")
    path: Annotated[str, BeforeValidator(_url_path), TEMPLATE] = Field(
        default="/", description="the path to ask, with its query; filled-in values are percent-encoded"
    )

    def open(self, environment: TargetEnvironment) -> ServiceProvider:
        return AppProvider(self, environment)

    @property
    def sources(self) -> Sources:
        return Sources(callable=self.app)


class AppProvider(ServiceProvider):
    """Calls an application on the loop for user code. Its lifespan is from the first request to the end of the run."""

    reads_environ = True

    def __init__(self, settings: Asgi, environment: TargetEnvironment) -> None:
        super().__init__(settings, f"http://{HOST}{settings.path}", environment)
        self._app_name = settings.app
        self._folder = environment.folder
        self._app_label = f"target {environment.name!r}: {settings.app}"
        self._start_label = f"{environment.where}: {settings.app}"
        """The beginning of messages about the target's definition."""
        self._lock = asyncio.Lock()
        self._lifespan: Lifespan | None = None

    async def check(self) -> None:
        """Import and start the application. Raises `ProviderError`."""
        await self._started()

    async def send(self, request: HttpRequest) -> HttpReply:
        lifespan = await self._started()
        reply = await call_async(lambda: call_app(lifespan.app, request, lifespan.state), self._app_label, None)
        if isinstance(reply, str):
            raise RequestError(RequestFailure(f"{self._app_label}: {reply}", "crash"))
        return reply

    async def close(self) -> None:
        """End the lifespan."""
        lifespan, self._lifespan = self._lifespan, None
        if lifespan is None:
            return
        try:
            fault = await call_async(lifespan.stop, self._app_label, _STOP_SECONDS)
        except ProviderError as error:
            _LOGGER.warning("%s", error)
        else:
            if fault:
                _LOGGER.warning("%s did not end well: %s", self._app_label, fault)

    async def _started(self) -> "Lifespan":
        """Import and start the application once, in a thread, because importing may take seconds."""
        async with self._lock:
            if self._lifespan is None:
                app = await run_in_thread(
                    lambda: import_callable(self._app_name, self._folder, self._start_label, "an ASGI application"),
                    "agentv-import",
                )
                lifespan = Lifespan(app)
                if fault := await call_async(lifespan.start, self._app_label, _START_SECONDS):
                    raise ProviderError(f"{self._start_label} did not start: {fault}", "config")
                if lifespan.error:  # it may treat every scope as a request, as servers allow
                    _LOGGER.warning("%s raised in its lifespan: %s", self._app_label, lifespan.error)
                    lifespan.error = None
                self._lifespan = lifespan
        return self._lifespan


class Lifespan:
    """The lifespan of one application. Runs on the loop for user code."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.state: dict[str, Any] = {}
        """The state that the application keeps for its requests."""
        self.error: str | None = None
        """What the application raised in its lifespan after it had asked for the first event."""
        self._to_app: asyncio.Queue[AsgiMessage] = asyncio.Queue()
        self._from_app: asyncio.Queue[AsgiMessage | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._has_begun = False

    async def start(self) -> str | None:
        """Start the application, unless it has no lifespan. Returns what it says of a failure."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        return await self._tell("startup")

    async def stop(self) -> str | None:
        """End the application. Returns what it says of a failure."""
        fault = None
        if self._task is not None and not self._task.done():
            fault = await self._tell("shutdown")
            await self._task
        return fault or self.error

    async def _tell(self, word: str) -> str | None:
        await self._to_app.put({"type": f"lifespan.{word}"})
        message = await self._from_app.get()
        if message is None or message["type"] != f"lifespan.{word}.failed":
            return None
        return str(message.get("message") or f"it reported that its {word} failed")

    async def _receive(self) -> AsgiMessage:
        self._has_begun = True
        return await self._to_app.get()

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": VERSIONS, "state": self.state}
        try:
            await self.app(scope, self._receive, self._from_app.put)
        except Exception as error:  # noqa: BLE001 - an application without a lifespan may raise anything
            self.error = f"{type(error).__name__}: {error}" if self._has_begun else None
        finally:
            self._from_app.put_nowait(None)


async def call_app(app: App, request: HttpRequest, state: Mapping[str, Any]) -> HttpReply | str:
    """Call an application, on the loop for user code; a text says why it gave no whole reply.

    Raises any exception of the application.
    """
    start: AsgiMessage = {}
    content = bytearray()
    is_asked, ended = False, asyncio.Event()

    async def receive() -> AsgiMessage:
        """Return the whole body first. After the reply is complete, report that the client has disconnected."""
        nonlocal is_asked
        if is_asked:
            await ended.wait()
            return {"type": "http.disconnect"}
        is_asked = True
        return {"type": "http.request", "body": request.content or b"", "more_body": False}

    async def send(message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        elif message["type"] == "http.response.body":
            content.extend(message.get("body", b""))
            if len(content) > READ_LIMIT:
                raise OverflowError(_TOO_LARGE)
            if not message.get("more_body", False):
                ended.set()

    try:
        await app(_scope(request, state), receive, send)
    except Exception:
        if len(content) <= READ_LIMIT:
            raise
        return _TOO_LARGE
    if not ended.is_set():
        return "it ended in the middle of its reply" if start else "it ended without a reply"
    headers = {
        bytes(name).decode("latin-1").lower(): bytes(value).decode("latin-1")
        for name, value in start.get("headers", ())
    }
    return HttpReply(int(start["status"]), headers, bytes(content))


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
