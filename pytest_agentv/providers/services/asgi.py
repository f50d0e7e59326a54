"""The `asgi` provider: an application of FastAPI, Starlette, Django or the like, asked in the pytest process."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator, Field

from pytest_agentv.errors import ProviderError
from pytest_agentv.loading.problems import describe_value
from pytest_agentv.loading.targets.fields import filled_text
from pytest_agentv.providers.apis.exchange import HttpReply, HttpRequest
from pytest_agentv.providers.base import TargetEnvironment
from pytest_agentv.providers.kind import Sources
from pytest_agentv.providers.python.calling import call_async
from pytest_agentv.providers.python.importing import ImportedCallable, import_callable
from pytest_agentv.providers.services.app_call import HOST, NoReplyError, call_app
from pytest_agentv.providers.services.lifespan import Lifespan, LifespanError
from pytest_agentv.providers.services.provider import ServiceProvider
from pytest_agentv.providers.services.service import TEMPLATE, Service
from pytest_agentv.runtime.retry import RequestError, RequestFailure
from pytest_agentv.runtime.threads import run_in_thread

_LOGGER: Final = logging.getLogger(__name__)
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 10.0


def _app(value: object) -> str:
    text = filled_text(value)
    module, _, name = text.rpartition(":")
    if not module.strip() or not name.strip():
        raise ValueError(f"expected package.module:app or path/to/file.py:app, got {describe_value(value)}")
    return text


def _url_path(value: object) -> str:
    text = filled_text(value)
    if not text.startswith("/"):
        raise ValueError(f"expected a path that starts with /, got {describe_value(value)}")
    return text


AppName: TypeAlias = Annotated[str, BeforeValidator(_app)]
UrlPath: TypeAlias = Annotated[str, BeforeValidator(_url_path)]


class Asgi(Service):
    """An ASGI application, asked in the pytest process."""

    kind = "asgi"

    app: AppName = Field(description="package.module:app or path/to/file.py:app")
    path: Annotated[UrlPath, TEMPLATE] = Field(
        default="/", description="the path to ask, with its query; filled-in values are percent-encoded"
    )

    def open(self, environment: TargetEnvironment) -> ServiceProvider:
        transport = AppTransport(self, environment)
        return ServiceProvider(self, f"http://{HOST}{self.path}", environment, transport, reads_environ=True)

    @property
    def sources(self) -> Sources:
        return Sources(callable=self.app)


class AppTransport:
    """Calls an application on the loop for user code. Its lifespan is from the first request to the end of the run."""

    def __init__(self, settings: Asgi, environment: TargetEnvironment) -> None:
        path = environment.target.path
        self._app_name = settings.app
        self._folder = Path.cwd() if path is None else Path(path).parent
        self._label = f"target {environment.name!r}: {settings.app}"
        self._start_label = f"{environment.where}: {settings.app}"
        """The beginning of messages about the target's definition."""
        self._lock = asyncio.Lock()
        self._imported: ImportedCallable | None = None
        self._lifespan: Lifespan | None = None

    async def check(self) -> None:
        """Import and start the application. Raises `ProviderError`."""
        await self._started()

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send one request. Raises `RequestError`, and `ProviderError` for an exception of the application."""
        app, lifespan = await self._started()

        async def call() -> HttpReply | NoReplyError:
            try:
                return await call_app(app, request, lifespan.state)
            except NoReplyError as error:
                return error

        reply = await call_async(call, self._label, None)
        if isinstance(reply, NoReplyError):
            raise RequestError(RequestFailure(f"{self._label}: {reply}", "crash"))
        return reply

    async def close(self) -> None:
        """End the lifespan."""
        lifespan, self._lifespan = self._lifespan, None
        if lifespan is None:
            return
        try:
            fault = await call_async(lambda: _fault_of(lifespan.stop), self._label, _STOP_SECONDS)
        except ProviderError as error:
            _LOGGER.warning("%s", error)
        else:
            if fault:
                _LOGGER.warning("%s did not end well: %s", self._label, fault)

    async def _started(self) -> tuple[Any, Lifespan]:
        """Import and start the application once, in a thread, because importing may take seconds."""
        async with self._lock:
            if self._imported is None:
                self._imported = await run_in_thread(
                    lambda: import_callable(self._app_name, self._folder, self._start_label, "an ASGI application"),
                    "agentv-import",
                )
            if self._lifespan is None:
                lifespan = Lifespan(self._imported.function)
                if fault := await call_async(lambda: _fault_of(lifespan.start), self._label, _START_SECONDS):
                    raise ProviderError(f"{self._start_label} did not start: {fault}", "config")
                if lifespan.fault:  # it may treat every scope as a request, as servers allow
                    _LOGGER.warning("%s raised in its lifespan: %s", self._label, lifespan.fault)
                    lifespan = Lifespan(_no_lifespan)
                self._lifespan = lifespan
        self._imported.check()
        return self._imported.function, self._lifespan


async def _no_lifespan(*_: object) -> None:
    """Replace the lifespan of an application without one."""


async def _fault_of(step: Callable[[], Awaitable[None]]) -> str | None:
    try:
        await step()
    except LifespanError as error:
        return str(error)
    return None
