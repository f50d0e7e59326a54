"""Sends requests over aiohttp. The only file that imports it; imported in a thread when a model is called.

aiohttp takes a fifth of the processor time of httpx and its successors for a request (benchmarks/README.md).
"""

import asyncio
import ipaddress
import json
import re
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import cache
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from pytest_agentv.model.base import JsonObject
from pytest_agentv.providers.api.base import ApiRequest, HttpReply, HttpRequest, is_success
from pytest_agentv.providers.api.failures import (
    describe_no_json,
    refused,
    refused_parameter,
    shorten,
    status_kind,
    without_reply,
)
from pytest_agentv.runtime.files import ACCEPTED, READ_LIMIT, Decoder
from pytest_agentv.runtime.retry import RequestError, RequestFailure

CERTIFICATE_VARIABLES: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

_LARGE: Final = 200_000
"""In bytes. A longer reply is parsed in a thread, because the event loop serves other cases."""
_LONGEST_HEADER: Final = 2**16
"""In bytes. The default of aiohttp is 8 KiB, which is too little for gateways."""
_OBJECT: Final = re.compile(r"(?:\s+ssl)?:?\s*<[^<>]*>|\s+ssl:\w+(?=\s|$)|\s+\[None\]$")
"""A Python object in a message of aiohttp, or None if the system gave no reason."""
_STATUS: Final = re.compile(r"^400, message[:=]\s*|, url=.*$", re.DOTALL)
"""What aiohttp puts around its own words about an unreadable reply. No server sent this status 400."""
_DONE: Final = re.compile(rb"(?:^|\n)data: ?\[DONE\]\r?\n\r?\n\Z")
"""The end of a stream of events. Servers may leave the connection open after it."""
_EVENT: Final = re.compile(rb"\s*(data|event|id|retry)?:")
"""The beginning of a stream of events."""
_LONGEST_END: Final = 24
_NOT_THE_ISSUER: Final = (9, 10, 62, 64)
"""OpenSSL's codes for certificates that are not valid yet, expired, or for another host or address."""
_PROXY_VARIABLES: Final = "ALL_PROXY, HTTP_PROXY and HTTPS_PROXY"
_SCHEMES: Final = ("http://", "https://")


class HttpClient:
    """The connections of one target, used on one event loop. There are as many as requests in flight."""

    def __init__(self, model: str, target: str, environment: Mapping[str, str]) -> None:
        """Take the names of model and target in messages, and the variables for proxies and certificates."""
        self._model = model
        self._target = target
        self._environment = environment
        self._session: aiohttp.ClientSession | None = None

    async def post(self, request: ApiRequest) -> JsonObject:
        """Send a request and return the JSON object of its reply. Raises `RequestError`."""
        body = await asyncio.to_thread(_encoded, request.body) if request.is_large else _encoded(request.body)
        headers = {"content-type": "application/json", "accept": "application/json", **request.headers}
        reply = await self.exchange(HttpRequest("POST", request.url, headers, body))
        if not is_success(reply.status):
            failure = refused(reply.status, reply.headers, reply.text, self._model, self._target)
            if reply.status == HTTPStatus.BAD_REQUEST:
                failure = failure.replace(refused=refused_parameter(reply.text, request.body))
            place = reply.headers.get("location")
            if place and 300 <= reply.status < 400:  # a request that followed it would send the key there
                leads = f"it leads to {shown_url(place)}: if that is right, name it in {self._target}"
                failure = failure.replace(message=f"{failure.message} ({leads})")
            raise RequestError(failure)
        return await self._parse(reply.content)

    async def exchange(self, request: HttpRequest) -> HttpReply:
        """Send a request and return its reply, whatever its status. Raises `RequestError`."""
        try:
            proxy = self._proxy(request.url)
            session = self._open()
            async with session.request(
                request.method,
                request.url,
                data=request.content,
                headers=request.headers,
                proxy=proxy,
                allow_redirects=False,  # a redirect could carry the key to any server
            ) as reply:
                return HttpReply(reply.status, reply.headers, await self._read(reply, is_stream=request.is_stream))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise RequestError(self._explain(error)) from None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _proxy(self, url: str) -> str | None:
        """Return the proxy for a URL. Raises `RequestError` for one that aiohttp cannot use."""
        if not url.lower().startswith(_SCHEMES):
            what = f"{shown_url(url)} does not begin with http:// or https://"
            raise self._misconfigured(what, f"the URL of {self._target}")
        proxy = find_proxy(url, self._environment)
        if proxy is None or proxy.lower().startswith(_SCHEMES):
            return proxy
        speaks = f"its proxy speaks {proxy.partition(':')[0]}, and only http:// and https:// proxies are supported"
        raise self._misconfigured(speaks, _PROXY_VARIABLES)

    def _misconfigured(self, what: str, check: str) -> RequestError:
        return RequestError(RequestFailure(f"{self._model} cannot be asked: {what} (check {check})", "config"))

    async def _read(self, reply: aiohttp.ClientResponse, *, is_stream: bool) -> bytes:
        parts, size, tail = [], 0, b""
        async with aclosing(self._decoded(reply)) as pieces:
            async for part in pieces:
                parts.append(part)
                size += len(part)
                tail = (tail + part)[-_LONGEST_END:] if is_stream else b""
                if is_stream and _DONE.search(tail):
                    break
                if size > READ_LIMIT:
                    reply.close()
                    too_large = f"it has more than {READ_LIMIT // 2**20} MiB"
                    raise RequestError(RequestFailure(f"the reply of {self._model} is too large: {too_large}", "crash"))
        if not reply.content.at_eof():
            reply.close()
        return b"".join(parts)

    async def _decoded(self, reply: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
        """Yield the body of a reply in pieces. Raises `RequestError` for a cut or undecodable body."""
        try:
            decoder = Decoder(reply.headers.get("content-encoding", ""))
            async for part in reply.content.iter_any():
                for piece in decoder.decode(part):
                    yield piece
            decoder.check_whole()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reply.close()
            if not is_success(reply.status):
                return  # its status is the better message
            if not isinstance(error, ValueError):
                raise
            # It was paid for. Another reply would have the same encoding.
            raise self._unreadable(f"what cannot be decoded: {error}") from None

    async def _parse(self, content: bytes) -> JsonObject:
        try:
            value = json.loads(content) if len(content) < _LARGE else await asyncio.to_thread(json.loads, content)
        except json.JSONDecodeError as error:
            if _EVENT.match(content):
                raise self._unreadable("a stream of events, which it was not asked for") from None
            raise self._unreadable(describe_no_json(error)) from None
        except (ValueError, RecursionError) as error:
            raise self._unreadable(f"what is no JSON: {type(error).__name__}") from None
        if not isinstance(value, dict):
            raise self._unreadable(f"JSON that is no object, but a {type(value).__name__}")
        return value

    def _unreadable(self, what: str) -> RequestError:
        return RequestError(RequestFailure(f"{self._model} replied with {what}", "crash"))

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            variable = certificate_variable(self._environment)
            bundle = self._environment[variable] if variable else None
            try:
                trusted = _tls(bundle)
            except OSError as error:
                message = f"{variable}={bundle} cannot be read as certificates: {error}"
                raise RequestError(RequestFailure(message, "config")) from None
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=trusted, keepalive_timeout=30),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),  # the case limits the time of the answer
                headers={"user-agent": "pytest-agentv", "accept-encoding": ACCEPTED},
                auto_decompress=False,
                max_line_size=_LONGEST_HEADER,
                max_field_size=_LONGEST_HEADER,
            )
        return self._session

    def _explain(self, error: Exception) -> RequestFailure:
        text = shorten(_OBJECT.sub("", _STATUS.sub("", str(error)))) or type(error).__name__
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
            return self._untrusted(error, text)
        if isinstance(error, aiohttp.ClientHttpProxyError) and error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            # the server was never asked
            status = error.status
            needs_login = status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
            hint = f" (check the login in {_PROXY_VARIABLES})" if needs_login else ""
            message = f"the proxy before {self._model} replied HTTP {status}: {shorten(error.message)}{hint}"
            return RequestFailure(message, status_kind(status), status)
        if isinstance(error, aiohttp.ClientResponseError) and not isinstance(error, aiohttp.ClientHttpProxyError):
            # it was paid for
            return RequestFailure(f"{self._model} replied with what is no HTTP: {text}", "crash")
        if isinstance(error, aiohttp.InvalidURL):
            url = str(error.url)
            is_proxy = any(
                name.lower().endswith("_proxy") and url in value for name, value in self._environment.items()
            )
            culprit = _PROXY_VARIABLES if is_proxy else f"the URL of {self._target}"
            return self._misconfigured(f"{shown_url(url)} is no URL that can be asked", culprit).failure
        if isinstance(error, ValueError) and not isinstance(error, aiohttp.ClientOSError):
            culprit = "the api_key and the headers" if "in headers" in text else "the URL"
            return self._misconfigured(text, f"{culprit} of {self._target}").failure
        if isinstance(error, TimeoutError):
            return RequestFailure(f"{self._model} did not reply in time: {text}", "timeout", is_network=True)
        return without_reply(self._model, text)

    def _untrusted(self, error: aiohttp.ClientConnectorSSLError, text: str) -> RequestFailure:
        """Describe why TLS failed. Advises to trust another issuer only if the certificate itself is valid."""
        cause = getattr(error, "certificate_error", None)
        if cause is not None:
            is_right = getattr(cause, "verify_code", None) not in _NOT_THE_ISSUER
            hint = f" (name its issuer's certificate in {CERTIFICATE_VARIABLES[0]})" if is_right else ""
            return RequestFailure(f"the server of {self._model} cannot be trusted: {text}{hint}", "config")
        is_plain = "WRONG_VERSION_NUMBER" in text
        hint = f" (does it speak http:// only? check the URL of {self._target})" if is_plain else ""
        message = f"no secure connection to the server of {self._model}: {text}{hint}"
        is_passing = "ALERT_INTERNAL_ERROR" in text
        return RequestFailure(message, "network" if is_passing else "config", is_network=is_passing)


def _encoded(body: JsonObject) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")


@cache
def _tls(bundle: str | None) -> ssl.SSLContext:
    """Return the trusted certificates: a bundle, else those of the system, else those of certifi."""
    context = ssl.create_default_context(cafile=bundle)
    if bundle is None and not context.cert_store_stats()["x509_ca"]:
        try:
            import certifi  # noqa: PLC0415 - most systems have certificates of their own
        except ImportError:
            return context
        context.load_verify_locations(certifi.where())
    return context


def find_proxy(url: str, environment: Mapping[str, str]) -> str | None:
    """Return the proxy for a URL from `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in any case."""
    parts = urlsplit(url)
    variables = {
        name.lower(): value.strip() for name, value in environment.items() if value and name.lower().endswith("_proxy")
    }
    proxy = variables.get(f"{parts.scheme}_proxy") or variables.get("all_proxy")
    if not proxy:
        return None
    host, port = (parts.hostname or "").rstrip("."), parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    if any(
        _is_meant(entry.strip().lower(), host, port) for entry in re.split(r"[,\s]+", variables.get("no_proxy", ""))
    ):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


_ENTRY: Final = re.compile(r"\[?(?P<host>[^\[\]]*?)\]?(:(?P<port>\d+))?")
"""A host of `NO_PROXY`, perhaps with a port. An IPv6 address then has brackets."""


def _is_meant(entry: str, host: str, port: int | None) -> bool:
    """Whether an entry of `NO_PROXY` matches a host: its name or a parent domain, its address, or its network."""
    if entry in ("", "*"):
        return entry == "*"
    if "/" in entry:
        try:
            return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
        except ValueError:  # the host is a name, or the entry is not a network
            return False
    found = None if entry.count(":") > 1 and "[" not in entry else _ENTRY.fullmatch(entry)
    if found is not None and found["port"] and int(found["port"]) != port:
        return False
    name = (entry if found is None else found["host"]).removeprefix("*").lstrip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def shown_url(url: str) -> str:
    """Return a URL without its login and its query, which may be secrets. The URL may be incomplete."""
    return re.sub(r"(?<=//).*@", "", url, flags=re.DOTALL).partition("?")[0]


def certificate_variable(environment: Mapping[str, str]) -> str | None:
    """Return the variable that names the trusted certificates; None: those of the system."""
    return next((name for name in CERTIFICATE_VARIABLES if environment.get(name)), None)


def is_loopback(url: str) -> bool:
    """Whether a URL is of a server on this machine. Some environments have a proxy even for these."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
