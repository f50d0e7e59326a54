"""Sends requests over aiohttp. The only file that imports it; imported in a thread when a model is called.

aiohttp takes a fifth of the processor time of httpx and its successors for a request (benchmarks/README.md).
"""

import asyncio
import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined] # typeshed lacks it

import aiohttp

from pytest_agentv.model.base import JsonObject
from pytest_agentv.providers.api.base import ApiRequest, HttpReply, HttpRequest, is_success, shown_url
from pytest_agentv.providers.api.failures import (
    describe_no_json,
    refused,
    refused_parameter,
    shorten,
    status_kind,
    without_reply,
)
from pytest_agentv.runtime.files import READ_LIMIT
from pytest_agentv.runtime.retry import RequestError, RequestFailure

_LARGE: Final = 200_000
"""In bytes. A longer reply is parsed in a thread, because the event loop serves other cases."""
_LONGEST_HEADER: Final = 2**16
"""In bytes. The default of aiohttp is 8 KiB, which is too little for gateways."""


_NOISE: Final = re.compile(r":? ?<[^<>]*>| ssl:default")
"""Python objects in the messages of aiohttp."""


class HttpClient:
    """The connections of one target, used on one event loop. There are as many as requests in flight."""

    def __init__(self, model: str, target: str, environment: Mapping[str, str]) -> None:
        """Take the names of model and target in messages, and the variables that may name proxies."""
        self._model = model
        self._target = target
        self._proxies = {
            name.lower().removesuffix("_proxy"): value.strip()
            for name, value in environment.items()
            if name.lower().endswith("_proxy")
        }
        self._session: aiohttp.ClientSession | None = None

    async def post(self, request: ApiRequest) -> JsonObject:
        """Send a request and return the JSON object of its reply. Raises `RequestError`."""
        body = await asyncio.to_thread(_encoded, request.body) if request.is_large else _encoded(request.body)
        headers = {"content-type": "application/json", "accept": "application/json", **request.headers}
        reply = await self.exchange(HttpRequest("POST", request.url, headers, body))
        if not is_success(reply.status):
            failure = refused(reply.status, reply.headers, reply.text, self._model, self._target, url=request.url)
            if reply.status == HTTPStatus.BAD_REQUEST:
                failure = failure.replace(refused=refused_parameter(reply.text, request.body))
            raise RequestError(failure)
        return await self._parse(reply.content)

    async def exchange(self, request: HttpRequest) -> HttpReply:
        """Send a request and return its reply, whatever its status. Raises `RequestError`.

        Follows no redirect: of the headers, aiohttp would keep only `Authorization` from another server.
        """
        try:
            async with self._open().request(
                request.method,
                request.url,
                data=request.content,
                headers=request.headers,
                proxy=find_proxy(request.url, self._proxies),
                allow_redirects=False,
            ) as reply:
                return HttpReply(reply.status, reply.headers, await self._read(reply))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise RequestError(self._explain(error)) from None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),  # the case limits the time of the answer
                headers={"user-agent": "pytest-agentv"},
                max_line_size=_LONGEST_HEADER,
                max_field_size=_LONGEST_HEADER,
            )
        return self._session

    async def _read(self, reply: aiohttp.ClientResponse) -> bytes:
        content = bytearray()
        async for part in reply.content.iter_any():
            content += part
            if len(content) > READ_LIMIT:
                reply.close()
                too_large = f"it has more than {READ_LIMIT // 2**20} MiB"
                raise RequestError(RequestFailure(f"the reply of {self._model} is too large: {too_large}", "crash"))
        return bytes(content)

    async def _parse(self, content: bytes) -> JsonObject:
        try:
            value = json.loads(content) if len(content) < _LARGE else await asyncio.to_thread(json.loads, content)
        except (ValueError, RecursionError) as error:
            raise self._unreadable(describe_no_json(error)) from None
        if not isinstance(value, dict):
            raise self._unreadable(f"JSON that is no object, but a {type(value).__name__}")
        return value

    def _unreadable(self, what: str) -> RequestError:
        return RequestError(RequestFailure(f"{self._model} replied with {what}", "crash"))

    def _explain(self, error: Exception) -> RequestFailure:
        """Return the failure for an error of aiohttp or the system, in its own words."""
        said = shorten(shown_url(_NOISE.sub("", str(getattr(error, "message", "") or error)))) or type(error).__name__
        if isinstance(error, aiohttp.ClientSSLError):
            advice = "SSL_CERT_FILE names the certificates to trust"
            return RequestFailure(f"no secure connection to {self._model}: {said} ({advice})", "config")
        if isinstance(error, aiohttp.ClientHttpProxyError):
            kind = status_kind(error.status)
            message = f"the proxy before {self._model} replied HTTP {error.status}: {said}"
            return RequestFailure(message, kind, error.status, is_network=kind == "network")
        if isinstance(error, aiohttp.ClientResponseError):  # it was paid for
            return RequestFailure(f"{self._model} replied with what is no HTTP: {said}", "crash")
        if isinstance(error, ValueError | aiohttp.NonHttpUrlClientError) and not isinstance(error, OSError):
            advice = f"check the URL, the api_key and the headers of {self._target}, and HTTPS_PROXY"
            return RequestFailure(f"{self._model} cannot be asked: {said} ({advice})", "config")
        if isinstance(error, TimeoutError):
            return RequestFailure(f"{self._model} did not reply in time: {said}", "timeout", is_network=True)
        return without_reply(self._model, said)


def _encoded(body: JsonObject) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")


def find_proxy(url: str, proxies: Mapping[str, str]) -> str | None:
    """Return the proxy for a URL: that of its scheme, or `all`, unless `no` names its host.

    With `trust_env`, aiohttp would read `~/.netrc` as well, in two threads for each request, which doubles its costs.
    """
    parts = urlsplit(url)
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass_environment(parts.netloc.rpartition("@")[2], proxies):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
