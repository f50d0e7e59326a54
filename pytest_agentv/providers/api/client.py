"""Sends requests over aiohttp, tells why they fail, and repeats them.

aiohttp takes a fifth of the processor time of httpx and its successors for a request (benchmarks/README.md). Only this
file imports it, in a thread when it is first needed.
"""

import asyncio
import functools
import json
import random
import re
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined] # typeshed lacks it

from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.model.base import Json, JsonObject, Record, counted, format_number, mapping
from pytest_agentv.model.cases import DEFAULT_RETRY_STATUS_CODES, RetryPolicy
from pytest_agentv.model.secrets import beginning
from pytest_agentv.providers.api.base import ApiRequest, HttpReply, HttpRequest, is_success, shown_url
from pytest_agentv.runtime.files import READ_LIMIT

T = TypeVar("T")

# Packages that take long to import.


@functools.cache
def begin(load: Callable[[], T]) -> "Future[T]":
    """Call a function that imports a package, once per process, in a thread, so that the event loop is free."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # a cancelled case must not cancel the import for others

    def work() -> None:
        try:
            future.set_result(load())
        except BaseException as error:  # noqa: BLE001 - all waiting cases raise it again
            future.set_exception(error)

    threading.Thread(target=work, name="agentv-import", daemon=True).start()
    return future


async def loaded(load: Callable[[], T], what: str) -> T:
    """Return what a function of `begin` returned. Raises `ProviderError` if a package cannot be imported."""
    future = begin(load)
    try:
        # Waiting for a finished future would take two more turns of the loop per request.
        return future.result() if future.done() else await asyncio.wrap_future(future)
    except ImportError as error:
        raise ProviderError(f"{what} cannot be imported: {error}", "config") from error


# Why a request failed, and whether and when it is worth another one.

JITTER: Final = (0.75, 1.25)
"""Range of the random factor of each delay, so that requests that failed together do not retry together."""

_UNFIT: Final = frozenset({400, 413, 422})
"""What is sent is at fault, not the credentials, the URL or the server."""

_FINAL: Final = frozenset({401, 403})
"""Never retried: the same credentials would be refused again."""


@dataclass(frozen=True, slots=True)
class RequestFailure(Record):
    """Why a request failed."""

    message: str
    kind: ErrorKind
    status: int | None = None
    """The HTTP status; None without a reply."""
    is_network: bool = False
    """Whether the network lost the request or its reply."""
    retry_after_ms: float | None = None
    """How long the server asks to wait."""
    should_retry: bool | None = None
    """Whether the server says that a retry may help; None: it does not say."""
    refused: str | None = None
    """The path of a parameter that the model does not take."""

    @property
    def is_of_content(self) -> bool:
        """Whether the server refused what was sent, so that a part of it may be accepted."""
        return self.status in _UNFIT


class RequestError(Exception):
    """A request failed; `failure` says why."""

    def __init__(self, failure: RequestFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(slots=True)
class RequestLog:
    """The requests of one call. It is updated during the call, so it is known even if a time limit ends the call."""

    attempts: int = 0
    waited_ms: float = 0
    """Waits between requests. They do not count in the answer's duration."""
    last_error: str | None = None
    """The error of the last failed request, also if a later request succeeded."""

    def to_raw(self) -> dict[str, Json]:
        """Return the log as entries of the `raw` data of a response or an error."""
        waited = {"waited_ms": round(self.waited_ms, 3), "last_error": self.last_error} if self.last_error else {}
        return {"request_attempts": self.attempts, **waited}


def is_retryable(failure: RequestFailure, policy: RetryPolicy) -> bool:
    """Whether a retry may help: the network failed, or the policy lists the status.

    The server may say that no retry helps. It may also ask for a retry at a status that the default policy does not
    list.

    Source: agentv-formats 4.7, "Non-retryable errors", "Custom retryable status codes".
    """
    if failure.status is None:
        return failure.is_network
    if failure.status in _FINAL or failure.should_retry is False:
        return False
    is_asked_for = failure.should_retry is True and policy.status_codes == DEFAULT_RETRY_STATUS_CODES
    return is_asked_for or failure.status in policy.status_codes


def next_delay(failure: RequestFailure, attempt: int, policy: RetryPolicy, jitter: float) -> float | None:
    """Return the milliseconds to wait after a failed attempt (0-based); None: do not retry.

    The delay that a server asks for is obeyed, up to the policy's longest delay (decisions 26). Source: agentv-formats
    4.7, "Exponential backoff with default config".
    """
    if attempt >= policy.max_retries or not is_retryable(failure, policy):
        return None
    if failure.retry_after_ms:
        return min(policy.max_delay_ms, failure.retry_after_ms)
    try:
        delay_ms = policy.initial_delay_ms * policy.backoff_factor**attempt
    except OverflowError:
        delay_ms = policy.max_delay_ms
    return min(policy.max_delay_ms, min(policy.max_delay_ms, delay_ms) * jitter)


_SHOWN: Final = 400
"""Characters of a server's text that a message shows."""

_KINDS: Final[dict[int, ErrorKind]] = {401: "auth", 403: "auth", 408: "timeout", 429: "rate_limit"}

_FILTERED: Final = re.compile(r'"code"\s*:\s*"content_(filter|policy_violation)"')
"""In the body with which Azure and OpenAI refuse a prompt (HTTP 400), without a completion."""

_USED_UP: Final = re.compile(r'"(code|type)"\s*:\s*"insufficient_quota"|"quotaId"\s*:\s*"[^"]*PerDay')
"""In the bodies with which OpenAI and Google refuse requests until the user pays or the day ends (HTTP 429)."""
_STATUSES: Final = {
    **dict.fromkeys(("rate_limit_error", "rate_limit_exceeded"), 429),
    "authentication_error": 401,
    "permission_error": 403,
    **dict.fromkeys(("api_error", "server_error"), 500),
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The statuses of errors that are told in a word, as by OpenAI's responses."""
_RETRY_DELAY: Final = re.compile(r'"retryDelay"\s*:\s*"(\d{1,6}(?:\.\d+)?)s"')

_REFUSED: Final = re.compile(
    r" (unsupported|unavailable|deprecated|unrecognized|unknown (name|parameter|field)|cannot find field"
    r"|no longer supported|only (supported|be set)|(not|t) (support|supported|accept|enabled|permitted|available)) "
)
"""Words for a parameter that a model does not take."""
_SCHEMA: Final = re.compile(r"(?<! json) schema ")
"""In words about a fault in the user's schema."""
_SAID: Final = {
    "JSON mode": "response_json_schema response_mime_type",
    "Developer instruction": "system_instruction",
}
"""Google's words for parameters."""
_FORM: Final = re.compile(
    r"response.?format|json.?schema|json mode|response.?(mime.?type|schema)|text\.format|tool.?choice|tool use",
    re.IGNORECASE,
)
"""The parameters that bind a reply to a schema, and words for them."""
_KEPT: Final = frozenset({"model", "messages", "input", "contents", "system", "tools"})
"""Parameters without which something else would be asked."""
_GROUPS: Final = frozenset({"generationConfig", "output_config", "reasoning", "text"})
"""Parameters that hold several others."""
_ELSEWHERE: Final = re.compile(r"/responses\b|Responses API")
"""In the words with which OpenAI refuses tools, or a model, in chat completions."""

_HINTS: Final = {
    401: "check the api_key of",
    403: "check what the api_key may use, and the model, of",
    404: "check the model and the URL of",
}


def refused(
    status: int,
    headers: Mapping[str, str],
    body: str,
    model: str,
    target: str,
    *,
    url: str = "",
    hints: Mapping[int, str] = _HINTS,
) -> RequestFailure:
    """Return the error of a reply with an error status; `headers` ignore the case of names."""
    said = read_error_text(body) or next((each.phrase for each in HTTPStatus if each == status), "")
    hint = f" ({hints[status]} {target})" if status in hints else ""
    if 300 <= status < 400 and (place := headers.get("location")):  # a request that followed it would bring the key
        hint = f" ({shown_url(url) or 'it'} leads to {shown_url(place)}: if that is right, write it into {target})"
    if hints is _HINTS and status in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND) and _ELSEWHERE.search(said):
        hint = f" (write `api_format: responses` in {target})"
    return RequestFailure(
        f"{model} replied HTTP {status}{f': {said}' if said else ''}{hint}",
        "no_answer" if _FILTERED.search(body) else status_kind(status),
        status,
        retry_after_ms=parse_retry_after(headers, body),
        should_retry=_should_retry(headers, body),
    )


def refused_parameter(body: str, sent: JsonObject) -> str | None:
    """Return the path of a sent parameter that the model does not take; None if the body of the refusal names none."""
    told = [found[1] for name in ("code", "param") if (found := re.search(rf'"{name}"\s*:\s*"([^"]+)"', body))]
    text = f"{' '.join(told)}. {read_error_text(body)}"
    if _ELSEWHERE.search(text):
        return None
    for words, name in _SAID.items():
        text = text.replace(words, name)
    paths = [name for name in sent if name not in _KEPT | _GROUPS]
    paths += [f"{group}.{name}" for group in _GROUPS for name in mapping(sent.get(group))]
    for sentence in map(_words, re.split(r"[.!?;]\s", text)):
        places = [(sentence.find(_words(path.rpartition(".")[2].removesuffix("Config"))), path) for path in paths]
        named = [found for found in places if found[0] >= 0]
        if named and _REFUSED.search(sentence) and not _SCHEMA.search(sentence):
            return min(named)[1]
    return None


def refuses_form(failure: RequestFailure) -> bool:
    """Whether a server refuses the form to which the reply was bound, as older servers and some models do."""
    is_refusal = failure.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
    return is_refusal and _FORM.search(failure.message) is not None


def _words(text: str) -> str:
    """Return the words of a text or a name in lower case, with a space around each."""
    return f" {' '.join(re.findall(r'[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+', text)).lower()} "


def without_reply(model: str, said: str) -> RequestFailure:
    """Return the error of a connection that broke before the reply was whole. `said` is the system's reason."""
    return RequestFailure(f"no whole reply from {model}: {said}", "network", is_network=True)


def without_choice(reply: JsonObject, model: str) -> RequestFailure:
    """Return the error of a reply with status 200 and without a message. Gateways send the errors of others like this.

    If the error names the status of the other server, that status counts.
    """
    error, body = reply.get("error"), json.dumps(reply, ensure_ascii=False)
    if not error:
        return RequestFailure(f"{model} replied without any choice: {shorten(body)}", "crash")
    told = [str(mapping(error).get(name)) for name in ("code", "status", "type")]
    numbers = [int(text) for text in told if re.fullmatch(r"[45]\d\d", text)]
    status = next(iter([*numbers, *(_STATUSES[text] for text in told if text in _STATUSES)]), None)
    kind = "crash" if status is None else status_kind(status)
    message = f"{model} replied with an error: {read_error_text(body)}{f' (code {status})' if status else ''}"
    kind = "no_answer" if _FILTERED.search(body) else kind
    return RequestFailure(message, kind, status, False, parse_retry_after({}, body), _should_retry({}, body))


def status_kind(status: int) -> ErrorKind:
    """Return the error kind of a status: server failures count as network errors, others as configuration errors."""
    if status in _KINDS:
        return _KINDS[status]
    return "network" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "config"


def _should_retry(headers: Mapping[str, str], body: str) -> bool | None:
    """Return whether the server says that a retry may help. A used-up quota lasts for days."""
    if _USED_UP.search(body):
        return False
    return {"true": True, "false": False}.get((headers.get("x-should-retry") or "").strip().lower())


def parse_retry_after(headers: Any, body: str = "", now: datetime | None = None) -> float | None:
    """Return the milliseconds that a reply asks to wait; None if it does not. Google's APIs put them into the body.

    `headers` ignore the case of names. A date is compared with `now`; default: the server's clock, if it tells it.
    """
    for name, factor in (("retry-after-ms", 1), ("retry-after", 1000)):
        text = (headers.get(name) or "").strip()
        if re.fullmatch(r"\d{1,300}(\.\d*)?", text):  # more digits are no float
            return float(text) * factor
    if then := _date(headers.get("retry-after")):
        now = now or _date(headers.get("date")) or datetime.now(UTC)
        return max(0.0, (then - now).total_seconds() * 1000)
    found = _RETRY_DELAY.search(body)
    return float(found[1]) * 1000 if found else None


def _date(text: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime((text or "").strip())
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def read_error_text(body: str) -> str:
    """Return the server's message in the body of an error: the message of its JSON, or its text on one line."""
    try:
        said = _message_of(json.loads(body))
    except (ValueError, RecursionError):
        said = None
    return shorten(said or body)


def _message_of(data: Json) -> str | None:
    """Return the message of an error in the shapes of known APIs."""
    if isinstance(data, list) and data:
        return _message_of(data[0])
    if not isinstance(data, dict):
        return None
    if "error" in data:
        return data["error"] if isinstance(data["error"], str) else _message_of(data["error"])
    message = data.get("message") or data.get("detail")
    return message if isinstance(message, str) else None


def describe_no_json(error: Exception) -> str:
    """Describe a body that is not JSON."""
    if not isinstance(error, json.JSONDecodeError):
        return f"what is no JSON: {'nested too deeply' if isinstance(error, RecursionError) else error}"
    if not error.doc.strip():
        return "an empty body"
    return f"what is no JSON: {error.msg} (character {error.pos + 1})"


def shorten(text: str) -> str:
    """Return a text on one line, cut after `_SHOWN` characters. Masks secrets before it cuts."""
    line = " ".join(text.split())
    return beginning(line, _SHOWN)


class ContentError(ProviderError):
    """A server refused what was sent. It may accept a part of it."""


async def repeated(
    ask: Callable[[], Awaitable[T]], policy: RetryPolicy, asked: str, limit: float | None
) -> tuple[T, RequestLog]:
    """Make a request, with repetitions by a policy. `limit` are the seconds for all of them; None: no limit.

    A wait that would end after the limit is not begun. Raises `ProviderError`. Its `raw` holds `request_attempts`,
    `waited_ms` and `last_error`. It is a `ContentError` if the server refused what was sent.
    """
    log = RequestLog()
    deadline = None if limit is None else time.monotonic() + limit
    try:
        async with asyncio.timeout(limit):
            while True:
                log.attempts += 1
                try:
                    return await ask(), log
                except RequestError as error:
                    log.last_error = error.failure.message
                    jitter = random.uniform(*JITTER)  # noqa: S311 - a delay is not a secret
                    delay_ms = next_delay(error.failure, log.attempts - 1, policy, jitter)
                    if delay_ms is None or (deadline is not None and time.monotonic() + delay_ms / 1000 >= deadline):
                        raise
                started = time.monotonic()
                try:
                    await asyncio.sleep(delay_ms / 1000)
                finally:
                    log.waited_ms += (time.monotonic() - started) * 1000
    except RequestError as error:
        failure = error.failure
        attempts = f" ({_requests(log)})" if log.attempts > 1 else ""
        if is_retryable(failure, policy) and log.attempts <= policy.max_retries:
            attempts = f"; no time is left for another request ({_requests(log)})"
        of_kind = ContentError if failure.is_of_content else ProviderError
        raise of_kind(failure.message + attempts, failure.kind, log.to_raw()) from None
    except TimeoutError:
        before = f" ({_requests(log)}; before: {log.last_error})" if log.last_error else ""
        message = f"no answer from {asked} within {format_number(limit or 0)} s{before}"
        raise ProviderError(message, "timeout", log.to_raw()) from None


def _requests(log: RequestLog) -> str:
    return f"{counted(log.attempts, 'request')}, {log.waited_ms / 1000:.1f} s of waiting"


# The HTTP client.

_LARGE: Final = 200_000
"""In bytes. A longer reply is parsed in a thread, because the event loop serves other cases."""
_LONGEST_HEADER: Final = 2**16
"""In bytes. The default of aiohttp is 8 KiB, which is too little for gateways."""
TOO_LARGE: Final = f"it has more than {READ_LIMIT // 2**20} MiB"
_NOISE: Final = re.compile(r":? ?<[^<>]*>| ssl:default")
"""Python objects in the messages of aiohttp."""


def import_aiohttp() -> Any:
    import aiohttp  # noqa: PLC0415 - half a second, only for runs with models or services

    return aiohttp


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
        self._aiohttp: Any = None
        self._session: Any = None

    async def ready(self) -> None:
        """Import aiohttp. Raises `ProviderError` if that fails."""
        self._aiohttp = await loaded(import_aiohttp, "the HTTP client")

    async def post(self, request: ApiRequest, *, is_large: bool = False) -> JsonObject:
        """Send a request and return the JSON object of its reply. Raises `RequestError`.

        Writing a large request, with pictures or PDFs, takes a while.
        """
        body = await asyncio.to_thread(_encoded, request.body) if is_large else _encoded(request.body)
        headers = {"content-type": "application/json", "accept": "application/json", **request.headers}
        reply = await self.exchange(HttpRequest("POST", request.url, headers, body))
        if not is_success(reply.status):
            failure = refused(reply.status, reply.headers, reply.text, self._model, self._target, url=request.url)
            if reply.status == HTTPStatus.BAD_REQUEST:
                failure = failure.replace(refused=refused_parameter(reply.text, request.body))
            raise RequestError(failure)
        content = reply.content
        try:
            value = json.loads(content) if len(content) < _LARGE else await asyncio.to_thread(json.loads, content)
        except (ValueError, RecursionError) as error:
            raise RequestError(
                RequestFailure(f"{self._model} replied with {describe_no_json(error)}", "crash")
            ) from None
        if not isinstance(value, dict):
            what = f"JSON that is no object, but a {type(value).__name__}"
            raise RequestError(RequestFailure(f"{self._model} replied with {what}", "crash"))
        return value

    async def exchange(self, request: HttpRequest) -> HttpReply:
        """Send a request and return its reply, whatever its status. Raises `RequestError`.

        Follows no redirect: of the headers, aiohttp would keep only `Authorization` from another server.
        """
        await self.ready()
        if self._session is None:
            self._session = self._open()
        content = bytearray()
        try:
            async with self._session.request(
                request.method,
                request.url,
                data=request.content,
                headers=request.headers,
                proxy=find_proxy(request.url, self._proxies),
                allow_redirects=False,
            ) as reply:
                async for part in reply.content.iter_any():
                    content += part
                    if len(content) > READ_LIMIT:
                        reply.close()
                        too_large = f"the reply of {self._model} is too large: {TOO_LARGE}"
                        raise RequestError(RequestFailure(too_large, "crash"))
                return HttpReply(reply.status, reply.headers, bytes(content))
        except (self._aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise RequestError(self._explain(error)) from None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _open(self) -> Any:
        aiohttp = self._aiohttp
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),  # the case limits the time of the answer
            headers={"user-agent": "pytest-agentv"},
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
        )

    def _explain(self, error: Exception) -> RequestFailure:
        """Return the failure for an error of aiohttp or the system, in its own words."""
        aiohttp = self._aiohttp
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
