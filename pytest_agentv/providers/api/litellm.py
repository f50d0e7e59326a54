"""Asks a model through litellm, which is imported when it is first needed."""

import asyncio
import importlib
import json
import os
import re
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from pytest_agentv.cases.prompts import ChatMessage
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import JsonObject
from pytest_agentv.providers.api.base import Billing, chat_content, form_of
from pytest_agentv.providers.api.client import (
    RequestError,
    begin,
    describe_no_json,
    loaded,
    refused,
    shorten,
    status_kind,
    without_reply,
)
from pytest_agentv.providers.api.model import LlmProvider, Model, build_response, read_cost
from pytest_agentv.providers.api.openai import read_answer, resource_url
from pytest_agentv.providers.base import ProviderResponse, TargetEnvironment

_ONE_REQUEST: Final = {"num_retries": 0, "max_retries": 0, "timeout": 86_400.0}
"""The limit is longer than any of ours. It must be constant: litellm keeps a client for each value."""


class LitellmProvider(LlmProvider):
    """A model that is called through litellm, without its retries, price download and telemetry."""

    reads_environ = True

    def __init__(self, settings: Model, environment: TargetEnvironment) -> None:
        super().__init__(settings, environment)
        self._arguments = {**build_arguments(self._api), **_ONE_REQUEST}

    def warm_up(self) -> None:
        """Start importing litellm. That takes seconds and 160 MB."""
        begin(import_litellm)

    async def _ready(self) -> None:
        try:
            await loaded(import_litellm, "litellm")
        except ProviderError as error:
            if getattr(error.__cause__, "name", None) != "litellm":
                raise
            missing = "this target needs litellm, which is not installed: pip install 'pytest-agentv[litellm]'"
            raise ProviderError(missing, "config") from None

    async def _ask(
        self, messages: Sequence[ChatMessage], schema: JsonObject | None
    ) -> tuple[ProviderResponse, Billing]:
        litellm = await loaded(import_litellm, "litellm")
        has_files = any(message.parts for message in messages)  # pictures and PDFs, which a thread reads
        turns = await asyncio.to_thread(_turns, messages) if has_files else _turns(messages)
        form = {"response_format": form_of(schema)} if schema else {}
        started = time.perf_counter()
        try:
            reply = await litellm.acompletion(**{**self._arguments, **form}, messages=turns)
            known = read_answer(reply.model_dump())
        except Exception as error:  # noqa: BLE001 - litellm raises any exception; its chain has the cause
            raise read_failure(error, self._model, self._target) from None
        duration_ms = round((time.perf_counter() - started) * 1000)
        if known is None:
            raise RequestError(f"{self._model} replied without any choice", "crash")
        native = (getattr(reply.choices[0], "provider_specific_fields", None) or {}).get("native_finish_reason")
        known = known.replace(finish_reason=native or known.finish_reason)  # in the words of the API
        # The price is by the target's `base_model` if it has one.
        metrics = {"duration_ms": duration_ms, "cost_usd": read_cost(reply), "cost_source": "litellm"}
        return build_response(known, self._model, self._api).replace(**metrics), Billing()

    async def close(self) -> None:
        """Close litellm's clients, which live as long as the process."""
        with suppress(KeyError, AttributeError):  # it was not needed, or could not be imported
            litellm = sys.modules["litellm"]
            await litellm.close_litellm_async_clients()
            litellm.in_memory_llm_clients_cache.flush_cache()  # its keys are ids of loops, which may be reused


def _turns(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    return [{"role": message.role, "content": chat_content(message)} for message in messages]


def build_arguments(api: Model) -> dict[str, Any]:
    """Return the arguments that all requests of a target share (agentv-formats 5.1), without those without a value."""
    kind, url = api.kind, (api.base_url or "").strip().rstrip("/") or None
    tokens, budget = api.max_output_tokens, getattr(api, "thinking_budget", None)
    prefix = "responses/" if getattr(api, "api_format", None) == "responses" else ""  # litellm's term
    arguments: dict[str, Any] = {
        "model": api.model if kind == "litellm" else f"{kind}/{prefix}{api.model}",
        "api_key": api.key,
        "api_base": url,
        "temperature": api.temperature,
        "max_tokens": tokens,
        "top_p": api.top_p,
        "stop": api.stop and list(api.stop),
        "reasoning_effort": api.reasoning_effort,
        "response_format": api.response_format,
        "tools": api.tools and list(api.tools),
        "extra_headers": dict(api.headers) or None,
        "drop_params": True,  # a model that takes no temperature must still answer
        # The place that litellm prices by. Its argument `base_model` would also change the URL of Azure.
        "litellm_metadata": api.base_model and {"model_info": {"base_model": api.base_model}},
        **{name: getattr(api, name, None) for name in ("api_version", "seed", "organization")},
    }
    if kind in ("anthropic", "gemini"):  # litellm builds the body from all arguments, and would send `extra_body`
        arguments |= api.extra_body
    else:
        arguments["extra_body"] = api.extra_body or None
    if kind == "azure":
        arguments["api_base"] = resource_url(url or "")
        if getattr(api, "reasoning", None):  # litellm's term; the name alone would not tell it
            arguments |= {"model": f"azure/o_series/{api.model}", "max_completion_tokens": tokens}
            arguments |= {"temperature": None, "max_tokens": None}
    elif kind == "anthropic":
        arguments["api_base"] = url and re.sub(r"/v1(/messages)?$", "", url)  # litellm adds it
        if budget is not None:  # the API refuses a temperature beside thinking
            thinking = {"type": "enabled", "budget_tokens": budget}
            arguments |= {"thinking": thinking, "temperature": None, "max_tokens": tokens and tokens + budget}
    elif kind == "gemini" and url and not re.search(r"/v\d\w*$", url):
        arguments["api_base"] = f"{url}/v1beta"
    return {name: value for name, value in arguments.items() if value is not None}


_IMPORT_ENVIRONMENT: Final = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}
"""Stops litellm from downloading files, and from loading a `.env` file beside its virtual environment."""


def import_litellm() -> Any:
    with _without_warnings():
        # only while it is imported, so that programs under test do not inherit them
        added = {name: value for name, value in _IMPORT_ENVIRONMENT.items() if name not in os.environ}
        os.environ.update(added)
        try:
            import litellm  # noqa: PLC0415

            with suppress(ImportError, AttributeError):  # an older version, which downloads nothing
                from litellm.anthropic_beta_headers_manager import reload_beta_headers_config  # noqa: PLC0415

                reload_beta_headers_config()
        finally:
            for name in added:
                os.environ.pop(name, None)
        litellm.suppress_debug_info = True
        litellm.telemetry = False
        with suppress(Exception):
            _import_the_rest(litellm)
        with suppress(Exception):  # older versions have no transport of their own
            from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler  # noqa: PLC0415

            refuse_redirects(AsyncHTTPHandler)
        return litellm


def _import_the_rest(litellm: Any) -> None:
    """Import the modules that the first call would import on the event loop, as a part of that answer's duration."""
    import openai.resources.chat.completions  # noqa: F401, PLC0415 - litellm's client for Azure and OpenAI

    messages = [{"role": "user", "content": "x"}]
    litellm.completion(model="openai/gpt-4o", messages=messages, mock_response="x")  # makes no request
    litellm.encode(model="", text="x")  # loads the tables for counting tokens
    # It causes a warning of pydantic: with `-W error`, a call of Gemini would fail.
    importlib.import_module("litellm.llms.vertex_ai.context_caching.vertex_ai_context_caching")


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Ignore warnings in this thread: with `-W error`, litellm could not be imported.

    Filters do not help. They belong to the whole process, and pytest replaces them for each item.
    """
    warn, importing = warnings.warn, threading.get_ident()

    def warn_elsewhere(message: Any, category: Any = None, stacklevel: int = 1, *rest: Any, **options: Any) -> None:
        if threading.get_ident() != importing:
            warn(message, category, stacklevel + 1, *rest, **options)

    warnings.warn = warn_elsewhere
    try:
        yield
    finally:
        if warnings.warn is warn_elsewhere:
            warnings.warn = warn


_GUESSED: Final = frozenset({422, 500})
"""The statuses that litellm invents if there was no reply."""


def read_failure(error: BaseException, model: str, target: str) -> RequestError:
    """Return the error for an exception of litellm; `model` and `target` are their names in the message.

    litellm's own exceptions do not tell: a refused connection, a malformed reply and a missing key are all errors 500
    there, and so is Anthropic's 503. The real cause is in the chain of exceptions.
    """
    import httpx  # noqa: PLC0415 - litellm has imported it by now; earlier it would cost 100 ms

    errors = [error]
    while (cause := errors[-1].__cause__ or errors[-1].__context__) and cause not in errors:
        errors.append(cause)
    for cause in errors:
        if isinstance(cause, httpx.HTTPStatusError):
            response, body = cause.response, ""
            with suppress(Exception):  # a reply that was not read to its end; its status is known anyway
                body = str(response.text)
            return refused(response.status_code, response.headers, body, model, target)
    for cause in errors:
        if isinstance(cause, httpx.TransportError | ConnectionError | socket.gaierror):
            return without_reply(model, _text(cause))
        if isinstance(cause, json.JSONDecodeError):
            return RequestError(f"{model} replied with {describe_no_json(cause)}", "crash")
    # Without a network cause, litellm refused to ask, or did not understand the reply.
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status not in _GUESSED:
        return RequestError(f"{model} could not be asked: {_text(error)}", status_kind(status), status)
    innermost = errors[-1]
    said = _text(error) if innermost is error else f"{type(innermost).__name__}: {_text(innermost)}"
    return RequestError(f"no answer from {model} that can be read: {said}", "crash")


def _text(error: BaseException) -> str:
    """Return an exception's own words, without the traceback and the object addresses that litellm adds."""
    text = str(error).partition("\nTraceback (most recent call last)")[0]
    text = re.sub(r"^(litellm\.)?\w+(Error|Exception|Timeout): ", "", text)
    text = re.sub(r"(\s*ssl:)?\s*<[^<>]*>|\s+ssl:\w+(?=\s|$)", "", text)
    return shorten(text.strip().rstrip(":")) or type(error).__name__


def refuse_redirects(handler: Any) -> None:
    """Make the transports of litellm's `AsyncHTTPHandler` bring no key and no question to another place."""
    for name in ("create_async_transport", "_create_async_transport"):  # the name depends on the version
        create = getattr(handler, name, None)
        if create is not None:
            setattr(handler, name, staticmethod(_refusing(create)))


def _refusing(create: Callable[..., Any]) -> Callable[..., Any]:
    def create_refusing(*args: Any, **keywords: Any) -> Any:
        transport = create(*args, **keywords)
        handle: Any = getattr(transport, "handle_async_request", None)

        async def handle_refusing(request: Any) -> Any:
            response = await handle(request)
            response.headers.pop("location", None)  # httpx cannot follow a redirect without a location
            return response

        if handle is not None:
            transport.handle_async_request = handle_refusing
        return transport

    return create_refusing
