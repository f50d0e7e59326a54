"""Calls a Python function as a provider: one that a targets file names, or an object of the user's own."""

import inspect
import json
import time
from asyncio import timeout as time_limit
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.text import format_number
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.base import Provider, ProviderRequest, ProviderResponse
from pytest_agentv.providers.python_import import user_traceback
from pytest_agentv.providers.wire import EXPECTED_KEYS, WireError, answer_message, parse_response
from pytest_agentv.runtime.threads import run_in_thread

Function: TypeAlias = Callable[..., Any]


class FunctionProvider:
    """Calls `function(prompt_text, **arguments)`, sync or async; a parameter named `request` gets the request too.

    The function returns the answer's text, a mapping in the shape of `wire.py`, or a `ProviderResponse`.
    """

    mode: PromptMode = "lm"

    def __init__(
        self, label: str, function: Function, arguments: JsonObject, timeout_seconds: float | None = None
    ) -> None:
        """Take a function.

        Args:
            label: How messages begin.
            function: What is called; a sync one runs in a thread of its own.
            arguments: Extra keyword arguments of every call.
            timeout_seconds: The longest a call may take, beside the run's limit; None: as long as that says.
        """
        self._label = label
        self._function = function
        self._extra = arguments
        self._timeout_seconds = timeout_seconds

    async def check(self) -> None:
        """Nothing can be missing."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        arguments = self._arguments(request)
        started = time.perf_counter()
        value = await self._call(prompt_text(request), arguments, request.timeout_seconds)
        response = self._response(value)
        if response.duration_ms is None:
            return response.replace(duration_ms=round((time.perf_counter() - started) * 1000))
        return response

    async def close(self) -> None:
        """Nothing is held open."""

    def _arguments(self, request: ProviderRequest) -> dict[str, Any]:
        arguments = dict(self._extra)
        try:
            signature = inspect.signature(self._function)
        except (TypeError, ValueError):  # some functions written in C have none
            return arguments
        if "request" in list(signature.parameters)[1:]:
            arguments.setdefault("request", request)
        try:
            signature.bind("prompt", **arguments)
        except TypeError as error:
            names = "".join(f", {name}=…" for name in arguments)
            raise ProviderError(
                f"{self._label} cannot be called as function(prompt{names}): {error}", "config"
            ) from None
        return arguments

    async def _call(self, prompt: str, arguments: Mapping[str, Any], run_limit: float | None) -> object:
        function = self._function
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
        limit = min((limit for limit in (self._timeout_seconds, run_limit) if limit is not None), default=None)
        try:
            async with time_limit(limit) as timeout:
                if is_async:
                    return await function(prompt, **arguments)
                return await self._call_in_thread(prompt, arguments)
        except ProviderError:
            raise  # the function may say itself what went wrong, and of which kind it is
        except (Exception, SystemExit) as error:
            if timeout.expired():
                raise self._timeout_error(limit or 0, is_async) from error
            kind: ErrorKind = "timeout" if isinstance(error, TimeoutError) else "crash"
            raise ProviderError(f"{self._label} raised {user_traceback(error)}", kind) from error

    async def _call_in_thread(self, prompt: str, arguments: Mapping[str, Any]) -> object:
        value: object = await run_in_thread(lambda: self._function(prompt, **arguments), "agentv-python")
        return await value if isinstance(value, Awaitable) else value

    def _timeout_error(self, limit: float, is_async: bool) -> ProviderError:
        text = f"{self._label} timed out after {format_number(limit)}s"
        note = "" if is_async else "; a sync function cannot be stopped: its thread runs on until it returns"
        return ProviderError(text + note, "timeout")

    def _response(self, value: object) -> ProviderResponse:
        if isinstance(value, ProviderResponse):
            return value
        if isinstance(value, str):
            return ProviderResponse(output_messages=(answer_message(value),), is_text_only=True)
        if not isinstance(value, Mapping):
            expected = f"a str, a mapping with {EXPECTED_KEYS}, or a ProviderResponse"
            returned = "None" if value is None else f"a value of type {type(value).__name__}"
            raise ProviderError(f"{self._label} returned {returned}: expected {expected}", "crash")
        try:
            response = parse_response(json.loads(json.dumps(dict(value), allow_nan=False)))
        except WireError as error:
            raise ProviderError(f"{self._label} returned a mapping that cannot be read: {error}", "crash") from None
        except (TypeError, ValueError) as error:
            raise ProviderError(f"{self._label} returned a mapping that is no JSON: {error}", "crash") from None
        if response.output_messages is None:
            keys = ", ".join(map(repr, value)) or "no keys"
            raise ProviderError(f"{self._label} returned a mapping with {keys}: expected {EXPECTED_KEYS}", "crash")
        return response


class _ForeignProvider:
    """A provider object of the user's own, of which no more than `invoke` is asked."""

    def __init__(self, label: str, value: Any) -> None:
        self.mode: PromptMode = getattr(value, "mode", "lm")
        self._label = label
        self._invoke = value.invoke

    async def check(self) -> None:
        """Who made the object has seen to it."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        response = await self._invoke(request)
        if not isinstance(response, ProviderResponse):
            returned = type(response).__name__
            raise ProviderError(f"{self._label}: invoke() returned {returned}, expected a ProviderResponse", "crash")
        return response

    async def close(self) -> None:
        """Who made the object closes it."""


def adapt_provider(value: object, label: str) -> Provider:
    """Return the provider that an object stands for: one with an async `invoke`, or a function of the prompt.

    Raises `ProviderError` of the kind `config` for anything else; `label` is how messages begin.
    """
    invoke = getattr(value, "invoke", None)
    if inspect.iscoroutinefunction(invoke):
        return _ForeignProvider(label, value)
    if callable(value) and not isinstance(value, type):
        return FunctionProvider(label, value, {})
    found = f"the class {value.__name__}" if isinstance(value, type) else f"a value of type {type(value).__name__}"
    hint = "; its `invoke` is not async: hand over `object.invoke` itself" if callable(invoke) else ""
    expected = "a function that takes the prompt, or an object with an async `invoke`"
    raise ProviderError(f"{label} is {found}: expected {expected}{hint}", "config")


def prompt_text(request: ProviderRequest) -> str:
    """Return the system prompt of a judge, the guidelines and the question, with blank lines between them."""
    parts = (request.system_prompt, request.prompt.guidelines, request.prompt.question)
    return "\n\n".join(part for part in parts if part)
