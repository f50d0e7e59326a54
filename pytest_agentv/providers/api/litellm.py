"""Asks a model through litellm, which is imported when it is first needed."""

import asyncio
import functools
import gc
import importlib
import importlib.util
import json
import os
import re
import socket
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final
from weakref import WeakSet

from pytest_agentv.cases.prompts import ChatMessage
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.messages import TokenUsage
from pytest_agentv.providers.api.base import AskedModel, Billing, chat_content, form_of
from pytest_agentv.providers.api.client import describe_no_json, refused, shorten, status_kind, without_reply
from pytest_agentv.providers.api.replies import Asked, build_arguments, build_response, read_cost, read_litellm
from pytest_agentv.runtime.files import READ_LIMIT
from pytest_agentv.runtime.retry import RequestError, RequestFailure

_ONE_REQUEST: Final = {"num_retries": 0, "max_retries": 0, "timeout": 86_400.0}
"""The limit is longer than any of ours. It must be constant: litellm keeps a client for each value."""

_OPEN: Final["WeakSet[LitellmClient]"] = WeakSet()
"""The clients that are not closed."""


class LitellmClient:
    """A client that calls the model of one target through litellm, without its retries, price download and telemetry.

    litellm keeps one client per URL and key, so that connections are reused.
    """

    def __init__(self, settings: AskedModel, environment: Mapping[str, str], model: str, target: str) -> None:
        self._model = model
        self._target = target
        self._arguments = build_arguments(settings.kind, settings.api_settings, environment)
        self._told = settings.api_settings
        _OPEN.add(self)

    def warm_up(self) -> None:
        """Start importing litellm, unless its import has started."""
        begin_import()

    async def ready(self) -> None:
        """Wait for the import of litellm. Raises `ProviderError` if it fails."""
        await load_litellm()

    async def ask(self, messages: Sequence[ChatMessage], schema: JsonObject | None = None) -> Asked:
        """Make one request. Raises `RequestError`, and `ProviderError` if litellm cannot be imported."""
        litellm = await load_litellm()
        has_files = any(message.parts for message in messages)  # pictures and PDFs, which a thread reads
        turns = await asyncio.to_thread(_turns, messages) if has_files else _turns(messages)
        arguments = {**self._arguments, **(_without_gateways() if self._told.tools else {}), **_ONE_REQUEST}
        arguments |= {"response_format": form_of(schema)} if schema else {}
        started = time.perf_counter()
        try:
            with limited_replies():
                reply = await litellm.acompletion(**arguments, messages=turns)
        except Exception as error:  # noqa: BLE001 - litellm raises any exception; its chain has the cause
            raise RequestError(read_failure(error, self._model, self._target)) from None
        duration_ms = round((time.perf_counter() - started) * 1000)
        known = read_litellm(reply)
        if known is None:
            raise RequestError(RequestFailure(f"{self._model} replied without any choice", "crash"))
        response = build_response(known, self._model, self._told)
        return Asked(response.replace(duration_ms=duration_ms, cost_usd=read_cost(reply), cost_source="litellm"))

    async def price(self, model: str | None, usage: TokenUsage | None, billing: Billing) -> None:
        """Return None: litellm reports the price with its reply, by the target's `base_model` if it has one."""

    async def close(self) -> None:
        """Close litellm's clients, which live as long as the process, when the last target with a model is closed."""
        _OPEN.discard(self)
        litellm = imported_litellm()
        if not _OPEN and litellm is not None:
            with suppress(AttributeError):  # before version 1.74
                await litellm.close_litellm_async_clients()
                litellm.in_memory_llm_clients_cache.flush_cache()  # its keys are ids of loops, which may be reused


def _turns(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Return the messages in the shape of OpenAI."""
    return [{"role": message.role, "content": chat_content(message)} for message in messages]


@functools.cache
def _without_gateways() -> Mapping[str, bool]:
    """Return the argument that stops litellm from importing the package mcp to find MCP gateways among the tools.

    Older versions do not import it, and would send the argument to the model.
    """
    with suppress(ModuleNotFoundError):
        if importlib.util.find_spec("litellm.responses.mcp.chat_completions_handler"):
            return {"_skip_mcp_handler": True}
    return {}


async def load_litellm() -> Any:
    """Return litellm, imported once per process.

    Raises `ProviderError` (kind `config`) if it cannot be imported.
    """
    try:
        return await asyncio.wrap_future(begin_import())
    except ModuleNotFoundError as error:
        if error.name != "litellm":
            raise ProviderError(f"litellm cannot be imported: {error}", "config") from error
        missing = "this target needs litellm, which is not installed: pip install 'pytest-agentv[litellm]'"
        raise ProviderError(missing, "config") from None
    except ImportError as error:
        raise ProviderError(f"litellm cannot be imported: {error}", "config") from error


def imported_litellm() -> Any:
    """Return litellm; None if it was not needed, or could not be imported."""
    if not begin_import.cache_info().currsize or not begin_import().done() or begin_import().exception():
        return None
    return begin_import().result()


@functools.cache
def begin_import() -> "Future[Any]":
    """Start importing litellm, unless its import has started.

    That takes seconds and 160 MB. So it happens once per process, in a thread, and starts with the first case that may
    ask a model.
    """
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()  # a cancelled case must not cancel the import for others
    threading.Thread(target=_load, args=(future,), name="agentv-import-litellm", daemon=True).start()
    return future


def _load(future: "Future[Any]") -> None:
    try:
        with _without_collector(), _without_warnings():
            litellm = _import_litellm()
        future.set_result(litellm)
    except BaseException as error:  # noqa: BLE001 - all waiting cases raise it again
        future.set_exception(error)


_IMPORT_ENVIRONMENT: Final = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}
"""Stops litellm from downloading files, and from loading a `.env` file beside its virtual environment."""

_FIRST_USED: Final = (
    "litellm.llms.vertex_ai.context_caching.vertex_ai_context_caching",
    "litellm.llms.github_copilot.authenticator",
)
"""Modules that litellm imports in a call, and that cause warnings of pydantic: with `-W error`, the call would fail."""


def _import_litellm() -> Any:
    with _import_environment():
        import litellm  # noqa: PLC0415

        with suppress(ImportError, AttributeError):  # an older version, which downloads nothing
            from litellm.anthropic_beta_headers_manager import reload_beta_headers_config  # noqa: PLC0415

            reload_beta_headers_config()
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    with suppress(Exception):
        _import_the_rest(litellm)
    with suppress(Exception):  # older versions have no transport of their own; litellm may raise a warning as an error
        from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler  # noqa: PLC0415

        limit_transports(AsyncHTTPHandler)
    return litellm


def _import_the_rest(litellm: Any) -> None:
    """Import the modules that the first call would import on the event loop, as a part of that answer's duration."""
    import openai.resources.chat.completions  # noqa: F401, PLC0415 - litellm's client for Azure and OpenAI

    for name in _FIRST_USED:
        with suppress(ImportError):  # the modules of releases differ
            importlib.import_module(name)
    messages = [{"role": "user", "content": "x"}]
    litellm.completion(model="openai/gpt-4o", messages=messages, mock_response="x")  # makes no request
    litellm.encode(model="", text="x")  # loads the tables for counting tokens


@contextmanager
def _without_collector() -> Iterator[None]:
    """Import without the garbage collector, which would scan all imported objects again and again.

    At the end it scans once, as it would do next anyway, instead of on the event loop among the first answers.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Ignore warnings in this thread: with `-W error`, litellm could not be imported.

    Filters do not help. They belong to the whole process, and pytest replaces them for each item.
    """
    warn, importing, is_over = warnings.warn, threading.get_ident(), threading.Event()

    def warn_elsewhere(message: Any, category: Any = None, stacklevel: int = 1, *rest: Any, **options: Any) -> None:
        if is_over.is_set() or threading.get_ident() != importing:
            warn(message, category, stacklevel + 1, *rest, **options)

    warnings.warn = warn_elsewhere
    try:
        yield
    finally:
        is_over.set()  # a module may have kept the function
        if warnings.warn is warn_elsewhere:
            warnings.warn = warn


@contextmanager
def _import_environment() -> Iterator[None]:
    """Set litellm's variables only while it is imported, so that programs under test do not inherit them."""
    added = {name: value for name, value in _IMPORT_ENVIRONMENT.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


_GUESSED: Final = frozenset({422, 500})
"""The statuses that litellm invents if there was no reply."""


def read_failure(error: BaseException, model: str, target: str) -> RequestFailure:
    """Return the error for an exception of litellm; `model` and `target` are their names in the message.

    litellm's own exceptions do not tell: a refused connection, a malformed reply and a missing key are all errors 500
    there, and so is Anthropic's 503. The real cause is in the chain of exceptions.
    """
    import httpx  # noqa: PLC0415 - litellm has imported it by now; earlier it would cost 100 ms

    errors = list(_chain(error))
    too_large = next((cause for cause in errors if isinstance(cause, ReplyTooLargeError)), None)
    if too_large is not None:
        return RequestFailure(f"the reply of {model} is too large: {too_large}", "crash")
    for cause in errors:
        if isinstance(cause, httpx.HTTPStatusError):
            response, body = cause.response, ""
            with suppress(Exception):  # a reply that was not read to its end; its status is known anyway
                body = str(response.text)
            return refused(response.status_code, response.headers, body, model, target)
    for cause in errors:
        if isinstance(cause, httpx.TimeoutException):
            return RequestFailure(f"{model} did not reply in time: {_text(cause)}", "timeout", is_network=True)
        if isinstance(cause, httpx.TransportError | ConnectionError | socket.gaierror):
            return without_reply(model, _text(cause))
        if isinstance(cause, json.JSONDecodeError):
            return RequestFailure(f"{model} replied with {describe_no_json(cause)}", "crash")
    # Without a network cause, litellm refused to ask, or did not understand the reply.
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status not in _GUESSED:
        return RequestFailure(f"{model} could not be asked: {_text(error)}", status_kind(status), status)
    innermost = errors[-1]
    said = _text(error) if innermost is error else f"{type(innermost).__name__}: {_text(innermost)}"
    return RequestFailure(f"no answer from {model} that can be read: {said}", "crash")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _text(error: BaseException) -> str:
    """Return an exception's own words, without the traceback and the object addresses that litellm adds."""
    text = str(error).partition("\nTraceback (most recent call last)")[0]
    text = re.sub(r"^(litellm\.)?\w+(Error|Exception|Timeout): ", "", text)
    text = re.sub(r"(\s*ssl:)?\s*<[^<>]*>|\s+ssl:\w+(?=\s|$)", "", text)
    return shorten(text.strip().rstrip(":")) or type(error).__name__


_IS_OURS: Final[ContextVar[bool]] = ContextVar("agentv_limits_reply", default=False)
"""Set during requests of targets only. An agent under test may use litellm in the same process."""


class ReplyTooLargeError(Exception):
    """A reply has more bytes than the limit."""

    def __init__(self) -> None:
        super().__init__(f"it has more than {READ_LIMIT // 2**20} MiB")


@contextmanager
def limited_replies() -> Iterator[None]:
    """Limit the replies to requests made in this block.

    Limits their bytes: a compressed reply of 100 kB may hold 100 MB. Follows no redirect to another server, which would
    get the key and the question.
    """
    token = _IS_OURS.set(True)
    try:
        yield
    finally:
        _IS_OURS.reset(token)


def limit_transports(handler: Any) -> None:
    """Make a class of litellm (`AsyncHTTPHandler`) create transports with the limit."""
    for name in ("create_async_transport", "_create_async_transport"):  # the name depends on the version
        create = getattr(handler, name, None)
        if create is not None:
            setattr(handler, name, staticmethod(_limiting(create)))


def _limiting(create: Callable[..., Any]) -> Callable[..., Any]:
    def create_limited(*args: Any, **keywords: Any) -> Any:
        transport = create(*args, **keywords)
        if transport is not None and not hasattr(transport, "agentv_is_limited"):
            transport.handle_async_request = _limited(transport.handle_async_request)
            transport.agentv_is_limited = True
        return transport

    return create_limited


def _limited(handle: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    async def handle_limited(request: Any) -> Any:
        response = await handle(request)
        if _IS_OURS.get():
            # The limit is for the decompressed size, which only the decoder of httpx knows.
            response._decoder = _LimitedDecoder(response._get_content_decoder())
            if _leads_elsewhere(request, response):
                del response.headers["location"]  # httpx cannot follow a redirect without a location
        return response

    return handle_limited


def _leads_elsewhere(request: Any, response: Any) -> bool:
    """Whether a reply redirects to another server."""
    place = response.headers.get("location")
    if place is None:
        return False
    try:
        url = request.url.join(place)
    except Exception:  # noqa: BLE001 - an exception of httpx, which is not imported here: nobody can follow such a location
        return True
    asked = request.url
    return (url.scheme, url.host, url.port) != (asked.scheme, asked.host, asked.port)


class _LimitedDecoder:
    """Counts the bytes of a decoder of httpx."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self._size = 0

    def decode(self, data: bytes) -> bytes:
        return self._count(self._decoder.decode(data))

    def flush(self) -> bytes:
        return self._count(self._decoder.flush())

    def _count(self, data: bytes) -> bytes:
        self._size += len(data)
        if self._size > READ_LIMIT:
            raise ReplyTooLargeError
        return data
