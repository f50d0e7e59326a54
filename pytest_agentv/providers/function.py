"""Calls a Python function as a provider: one that a targets file names, or an object of the user's own."""

import inspect
import json
import time
from asyncio import timeout as time_limit
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.text import format_number
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.base import Provider, ProviderRequest, ProviderResponse
from pytest_agentv.providers.wire import EXPECTED_KEYS, WireError, answer_message, parse_response
from pytest_agentv.runtime.outcomes import Outcome
from pytest_agentv.runtime.threads import attempt_in_thread
from pytest_agentv.runtime.user_errors import leaves, user_traceback
from pytest_agentv.runtime.user_loop import USER_LOOP, CallTimeoutError

Function: TypeAlias = Callable[..., Any]
T = TypeVar("T")


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
        limit = min((limit for limit in (self._timeout_seconds, run_limit) if limit is not None), default=None)
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            return await call_async(lambda: function(prompt, **arguments), self._label, limit)
        started = time.monotonic()
        try:
            async with time_limit(limit):
                outcome = await attempt_in_thread(lambda: function(prompt, **arguments), "agentv-python")
        except TimeoutError as error:
            note = "; a sync function cannot be stopped: its thread runs on until it returns"
            raise _timeout_error(self._label, limit, note) from error
        value: object = _value_of(outcome, self._label)
        if not isinstance(value, Awaitable):
            return value
        rest = None if limit is None else max(0, limit - (time.monotonic() - started))
        return await call_async(lambda: value, self._label, rest)

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


async def call_async(start: Callable[[], Awaitable[T]], label: str, limit: float | None) -> T:
    """Await a user's coroutine on the loop of users. An answer that comes after the limit is none.

    Raises `ProviderError` for whatever the coroutine raises, a cancellation of itself included.
    """
    try:
        outcome = await USER_LOOP.call(start, limit)
    except CallTimeoutError as error:
        note = "; the event loop of async functions is blocked: call nothing that blocks in them, or use `def`"
        raise _timeout_error(label, limit, note if error.is_blocked else "") from None
    return _value_of(outcome, label)


def _value_of(outcome: Outcome[T], label: str) -> T:
    error = outcome.error
    if error is None:
        return outcome.get()
    causes = leaves(error)
    if len(causes) == 1 and isinstance(causes[0], ProviderError):
        raise causes[0]  # the function may say itself what went wrong, and of which kind it is
    is_timeout = all(isinstance(cause, TimeoutError) for cause in causes)
    raise ProviderError(f"{label} raised {user_traceback(error)}", "timeout" if is_timeout else "crash") from error


def _timeout_error(label: str, limit: float | None, note: str) -> ProviderError:
    return ProviderError(f"{label} timed out after {format_number(limit or 0)}s{note}", "timeout")


class _ForeignProvider:
    """A provider object of the user's own, of which no more than `invoke` is asked."""

    def __init__(self, label: str, value: Any) -> None:
        self.mode: PromptMode = getattr(value, "mode", "lm")
        self._label = label
        self._invoke = value.invoke

    async def check(self) -> None:
        """Who made the object has seen to it."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        response = await call_async(lambda: self._invoke(request), self._label, request.timeout_seconds)
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
