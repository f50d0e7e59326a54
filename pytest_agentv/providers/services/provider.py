"""Asks a service: builds the request of a case, sends it, follows redirects, reads the reply."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol
from urllib.parse import urljoin, urlsplit

from pytest_agentv.errors import ProviderError
from pytest_agentv.loading.targets.free_data import reveal
from pytest_agentv.loading.variables.rendering import TemplateFault, as_text
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.apis.exchange import HttpReply, HttpRequest
from pytest_agentv.providers.apis.failures import refused
from pytest_agentv.providers.apis.proxies import shown_url
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetEnvironment
from pytest_agentv.providers.python.question import require_no_media
from pytest_agentv.providers.repeating import Repeater
from pytest_agentv.providers.services.contents import asks_for_html
from pytest_agentv.providers.services.reply import read_reply
from pytest_agentv.providers.services.service import Service
from pytest_agentv.providers.services.templates import fill_data, fill_url, shows_files, values_of
from pytest_agentv.runtime.retry import RequestError, RequestFailure

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS: Final = 5
_HINTS: Final = {
    401: "check the headers of",
    403: "check the headers of",
    404: "check the URL of",
    405: "check the method of",
    422: "check the body of",
}


class Transport(Protocol):
    """Carries requests to a service."""

    async def check(self) -> None:
        """Check that the service is available. Raises `ProviderError`."""

    async def send(self, request: HttpRequest) -> HttpReply:
        """Send one request. Raises `RequestError`, and `ProviderError` if a retry could not help."""
        ...

    async def close(self) -> None:
        """Release resources."""


class ServiceProvider:
    """A service. Its requests are repeated by the target's retry policy."""

    mode: PromptMode = "lm"
    keeps_limits = True

    def __init__(
        self,
        settings: Service,
        address: str,
        environment: TargetEnvironment,
        transport: Transport,
        *,
        reads_environ: bool = False,
    ) -> None:
        self._settings = settings
        self._address = address
        self._where = environment.where
        self._label = f"{settings.kind} service of target {environment.name!r}"
        self._transport = transport
        self._paths = settings.paths
        self._headers: dict[str, str] = reveal(settings.headers)
        self._content = settings.content
        self._shows_files = shows_files(settings.content)
        self._repeater = Repeater(settings.retry, self._label, settings.secrets)
        self.reads_environ = reads_environ

    async def check(self) -> None:
        await self._transport.check()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Ask, with repetitions by the retry policy. The time limit covers all requests."""
        built = await asyncio.to_thread(self._build, request) if request.prompt.media else self._build(request)
        limits = (self._settings.timeout_seconds, request.timeout_seconds)
        limit = min((each for each in limits if each is not None), default=None)
        (reply, duration), log = await self._repeater.ask(lambda: _timed(lambda: self._send(built)), limit)
        is_stream = self._settings.stream is not None
        html = asks_for_html(built.headers)
        response = await read_reply(reply, self._paths, self._label, is_stream=is_stream, takes_html=html)
        raw = {**response.raw, "status": reply.status, **log.to_raw()}
        return response.replace(raw=raw, duration_ms=duration if response.duration_ms is None else response.duration_ms)

    async def close(self) -> None:
        await self._transport.close()

    def _build(self, request: ProviderRequest) -> HttpRequest:
        """Build a request. Reads pictures and PDFs."""
        if not self._shows_files:
            require_no_media(request, f"the body of {self._where}", "write {{ messages }} or {{ files }} into it")
        values = values_of(request)
        try:
            url = fill_url(self._address, values)
            headers = {name.lower(): as_text(fill_data(text, values)) for name, text in self._headers.items()}
            content = fill_data(self._content, values)
        except TemplateFault as fault:
            raise ProviderError(f"{self._where}: {fault}", "config") from None
        accept = "text/event-stream" if self._settings.stream else "application/json"
        type_ = {"content-type": "text/plain; charset=utf-8" if isinstance(content, str) else "application/json"}
        known = {"accept": accept, **({} if content is None else type_)}
        headers = {name: " ".join(text.splitlines()) for name, text in headers.items()}
        is_stream = self._settings.stream is not None
        return HttpRequest(self._settings.method, url, {**known, **headers}, _encoded(content), is_stream)

    async def _send(self, request: HttpRequest) -> HttpReply:
        for _ in range(_MOST_REDIRECTS):
            reply = await self._transport.send(request)
            place = reply.headers.get("location")
            if reply.status not in _REDIRECTS or not place:
                break
            request = self._redirected(request, reply.status, place)
        else:
            message = f"{self._label} redirects more than {_MOST_REDIRECTS} times, at last to {_site(request.url)}"
            raise RequestError(RequestFailure(message, "config", reply.status))
        if not 200 <= reply.status < 300:
            failure = refused(reply.status, reply.headers, reply.text, self._label, self._where, hints=_HINTS)
            raise RequestError(failure)
        return reply

    def _redirected(self, request: HttpRequest, status: int, place: str) -> HttpRequest:
        """Return the request for a redirect. Raises `RequestError` for another server, which would get the headers."""
        try:
            url = urljoin(request.url, place)
            is_elsewhere = _origin(url) != _origin(request.url)
        except ValueError:
            message = f"{self._label} redirects to {shown_url(place)}, which is no URL"
            raise RequestError(RequestFailure(message, "config", status)) from None
        if is_elsewhere:
            message = f"{self._label} redirects to {_site(url)}, which must not get the headers and the body"
            raise RequestError(RequestFailure(f"{message} (name that URL in {self._where})", "config", status))
        if status in (307, 308) or request.method == "GET":
            return request.replace(url=url)
        return request.replace(url=url, method="GET", content=None)


async def _timed(send: Callable[[], Awaitable[HttpReply]]) -> tuple[HttpReply, int]:
    started = time.perf_counter()
    reply = await send()
    return reply, round((time.perf_counter() - started) * 1000)


def _encoded(content: Any) -> bytes | None:
    if content is None:
        return None
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _site(url: str) -> str:
    """Return the server of a URL, without the login and the query, which may be secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"
