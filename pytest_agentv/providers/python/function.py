"""Calls a Python function as a provider: one that a targets file names, or an object of the user's own."""

import inspect
import json
import time
from asyncio import timeout as time_limit
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.text import format_number
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.base import Adapter, ProviderRequest, ProviderResponse
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
        response = read_value(value, self._label)
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
        limit = min((limit for limit in (self._timeout_seconds, run_limit) if limit is not None), default=None)
        return await call_user(self._function, (prompt,), arguments, label=self._label, limit=limit)


def read_value(value: object, label: str) -> ProviderResponse:
    """Return the response that a value of the user's stands for. Raises `ProviderError`."""
    if isinstance(value, ProviderResponse):
        return value
    if isinstance(value, str):
        return ProviderResponse(output_messages=(answer_message(value),), is_text_only=True)
    if not isinstance(value, Mapping):
        expected = f"a str, a mapping with {EXPECTED_KEYS}, or a ProviderResponse"
        returned = "None" if value is None else f"a value of type {type(value).__name__}"
        raise ProviderError(f"{label} returned {returned}: expected {expected}", "crash")
    try:
        response = parse_response(json.loads(json.dumps(dict(value), allow_nan=False)))
    except WireError as error:
        raise ProviderError(f"{label} returned a mapping that cannot be read: {error}", "crash") from None
    except (TypeError, ValueError) as error:
        raise ProviderError(f"{label} returned a mapping that is no JSON: {error}", "crash") from None
    if response.output_messages is None:
        keys = ", ".join(map(repr, value)) or "no keys"
        raise ProviderError(f"{label} returned a mapping with {keys}: expected {EXPECTED_KEYS}", "crash")
    return response


async def call_user(
    function: Function,
    arguments: Sequence[object],
    keywords: Mapping[str, Any],
    *,
    label: str,
    limit: float | None,
) -> object:
    """Call a function of the user's: an async one on the loop of users, a sync one in a thread of its own.

    Raises `ProviderError` for whatever it raises, and where it takes longer than the limit.
    """
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        return await call_async(lambda: function(*arguments, **keywords), label, limit)
    started = time.monotonic()
    try:
        async with time_limit(limit):
            outcome = await attempt_in_thread(lambda: function(*arguments, **keywords), "agentv-python")
    except TimeoutError as error:
        note = "; a sync function cannot be stopped: its thread runs on until it returns"
        raise _timeout_error(label, limit, note) from error
    value: object = _value_of(outcome, label)
    if not isinstance(value, Awaitable):
        return value
    rest = None if limit is None else max(0, limit - (time.monotonic() - started))
    return await call_async(lambda: value, label, rest)


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


class ForeignAdapter:
    """An object of the user's own that has `invoke`, and perhaps other parts of an `Adapter`.

    Its async methods share the loop of users, its sync ones run in threads.
    """

    def __init__(self, value: Any, label: str, *, is_owned: bool) -> None:
        """Take an object; one that is not owned is neither checked nor closed: who made it sees to that."""
        self.mode: PromptMode = getattr(value, "mode", "lm")
        self.keeps_limits: bool = getattr(value, "keeps_limits", False)
        self.reads_environ: bool = getattr(value, "reads_environ", False)
        self._value = value
        self._label = label
        self._is_owned = is_owned
        if hasattr(value, "warm_up"):
            self.warm_up = value.warm_up
        if hasattr(value, "invoke_batch"):
            self.invoke_batch = self._invoke_batch

    async def check(self) -> None:
        if self._is_owned:
            await self._call("check")

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        limit = None if self.keeps_limits else request.timeout_seconds
        return read_value(await self._call("invoke", request, limit=limit), f"{self._label}: invoke()")

    async def close(self) -> None:
        if self._is_owned:
            await self._call("close")

    async def _invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        values: Any = await self._call("invoke_batch", requests)
        return [read_value(value, f"{self._label}: invoke_batch()") for value in values]

    async def _call(self, name: str, *arguments: object, limit: float | None = None) -> object:
        method = getattr(self._value, name, None)
        if method is None:
            return None
        return await call_user(method, arguments, {}, label=self._label, limit=limit)


def complete(value: Any, label: str) -> Adapter:
    """Return what `Provider.open` gave, with what an `Adapter` has beside `invoke`. Raises `ProviderError`."""
    if callable(getattr(value, "invoke", None)):
        return ForeignAdapter(value, label, is_owned=True)
    raise ProviderError(f"{label}: open() returned {type(value).__name__}, expected an object with `invoke`", "config")


def adapt_provider(value: object, label: str) -> Adapter:
    """Return the provider that an object stands for: one with an async `invoke`, or a function of the prompt.

    Raises `ProviderError` of the kind `config` for anything else; `label` is how messages begin.
    """
    invoke = getattr(value, "invoke", None)
    if inspect.iscoroutinefunction(invoke):
        return ForeignAdapter(value, label, is_owned=False)
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
