"""The `python` provider: calls a function, so that an agent written in Python is evaluated without a shell."""

import asyncio
import inspect
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.models.targets import PythonSettings
from pytest_agentv.models.text import format_number
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.python_import import import_callable, user_traceback
from pytest_agentv.providers.wire import EXPECTED_KEYS, WireError, answer_message, parse_response
from pytest_agentv.runtime.threads import run_in_thread

Function: TypeAlias = Callable[..., Any]


class PythonProvider:
    """Calls `function(prompt_text, **arguments)`, sync or async; a parameter named `request` gets the request too.

    The function returns the answer's text, a mapping in the shape of `wire.py`, or a `ProviderResponse`.
    """

    mode: PromptMode = "lm"

    def __init__(self, name: str, settings: PythonSettings) -> None:
        self._label = f"target '{name}': {settings.callable}"
        self._settings = settings
        self._lock = asyncio.Lock()
        self._function: Function | None = None

    async def check(self) -> None:
        """Import the function, so that a fault of it is found before the first case."""
        await self._load()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        function = await self._load()
        arguments = self._arguments(function, request)
        started = time.perf_counter()
        value = await self._call(function, prompt_text(request), arguments, request.timeout_seconds)
        response = self._response(value)
        if response.duration_ms is None:
            return response.replace(duration_ms=round((time.perf_counter() - started) * 1000))
        return response

    async def close(self) -> None:
        """Nothing is held open."""

    async def _load(self) -> Function:
        """Import once, in a thread: importing an agent's libraries may take seconds."""
        async with self._lock:
            if self._function is None:
                self._function = await run_in_thread(
                    lambda: import_callable(self._settings.callable, Path(self._settings.cwd), self._label),
                    "agentv-import",
                )
        return self._function

    def _arguments(self, function: Function, request: ProviderRequest) -> dict[str, Any]:
        arguments = dict(self._settings.arguments)
        try:
            signature = inspect.signature(function)
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

    async def _call(
        self, function: Function, prompt: str, arguments: Mapping[str, Any], run_limit: float | None
    ) -> object:
        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
        limit = min((limit for limit in (self._settings.timeout_seconds, run_limit) if limit is not None), default=None)
        try:
            async with asyncio.timeout(limit) as timeout:
                if is_async:
                    return await function(prompt, **arguments)
                return await self._call_in_thread(function, prompt, arguments)
        except ProviderError:
            raise  # the function may say itself what went wrong, and of which kind it is
        except (Exception, SystemExit) as error:
            if timeout.expired():
                raise self._timeout_error(limit or 0, is_async) from error
            kind: ErrorKind = "timeout" if isinstance(error, TimeoutError) else "crash"
            raise ProviderError(f"{self._label} raised {user_traceback(error)}", kind) from error

    async def _call_in_thread(self, function: Function, prompt: str, arguments: Mapping[str, Any]) -> object:
        value: object = await run_in_thread(lambda: function(prompt, **arguments), "agentv-python")
        return await value if isinstance(value, Awaitable) else value

    def _timeout_error(self, limit: float, is_async: bool) -> ProviderError:
        text = f"{self._label} timed out after {format_number(limit)}s"
        note = "" if is_async else "; a sync function cannot be stopped: its thread runs on until it returns"
        return ProviderError(text + note, "timeout")

    def _response(self, value: object) -> ProviderResponse:
        if isinstance(value, ProviderResponse):
            return value
        if isinstance(value, str):
            return ProviderResponse(output_messages=(answer_message(value),))
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


def prompt_text(request: ProviderRequest) -> str:
    """Return the system prompt of a judge, the guidelines and the question, with blank lines between them."""
    parts = (request.system_prompt, request.prompt.guidelines, request.prompt.question)
    return "\n\n".join(part for part in parts if part)
