"""Turns objects of users into providers: functions, agents, and objects with `invoke`."""

import inspect
from collections.abc import Sequence, ValuesView
from typing import Any

from pytest_agentv.errors import ProviderError
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.base import Adapter, ProviderRequest, ProviderResponse, total_seconds
from pytest_agentv.providers.python.answers import read_value
from pytest_agentv.providers.python.calling import call_user
from pytest_agentv.providers.python.frameworks.table import runner_of
from pytest_agentv.providers.python.function import FunctionProvider
from pytest_agentv.providers.python.streams import Chunks


class ForeignAdapter:
    """A user's object with `invoke`, and perhaps other parts of an `Adapter`.

    Its async methods share the loop for user code. Its sync methods run in threads.
    """

    def __init__(self, value: Any, label: str, *, is_owned: bool, timeout_seconds: float | None = None) -> None:
        """Take an object. If it is not owned, its owner checks and closes it; else `timeout_seconds` limits both."""
        self.mode: PromptMode = getattr(value, "mode", "lm")
        self.keeps_limits: bool = getattr(value, "keeps_limits", False)
        self.reads_environ: bool = getattr(value, "reads_environ", False)
        self._value = value
        self._label = label
        self._is_owned = is_owned
        self._timeout_seconds = timeout_seconds
        if hasattr(value, "warm_up"):
            self.warm_up = value.warm_up
        if hasattr(value, "invoke_batch"):
            self.invoke_batch = self._invoke_batch

    async def check(self) -> None:
        if self._is_owned:
            await self._call("check", limit=self._timeout_seconds)

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        value = await self._call("invoke", request, limit=request.timeout_seconds)
        return await read_value(value, f"{self._label}: invoke()")

    async def close(self) -> None:
        if self._is_owned:
            await self._call("close", limit=self._timeout_seconds)

    async def _invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        """Call `invoke_batch`. A result that is no list is an error of all cases: another call would cost again."""
        values = await self._call("invoke_batch", requests, limit=total_seconds(requests))
        # The keys of a mapping, the letters of a text and what has no order are no answers.
        if isinstance(values, str | bytes | bytearray) or not isinstance(values, Sequence | ValuesView):
            found = "a generator" if isinstance(values, Chunks) else f"a value of type {type(values).__name__}"
            error = f"{self._label}: invoke_batch() returned {found}, expected a list of answers"
            return [ProviderResponse(error=error) for _ in requests]
        return [await self._read_one(value) for value in values]

    async def _read_one(self, value: object) -> ProviderResponse:
        """Read a value of a batch. One that is no answer is an error of its case: the others were paid for."""
        try:
            return await read_value(value, f"{self._label}: invoke_batch()")
        except ProviderError as error:
            return ProviderResponse(error=str(error), error_kind=error.kind)

    async def _call(self, name: str, *arguments: object, limit: float | None = None) -> object:
        """Call a method, if there is one, within a limit, unless the object keeps the limits itself."""
        method = getattr(self._value, name, None)
        if method is None:
            return None
        return await call_user(method, arguments, {}, label=self._label, limit=None if self.keeps_limits else limit)


def complete(value: Any, label: str, timeout_seconds: float | None) -> Adapter:
    """Return the result of `Provider.open`, completed to an `Adapter`. Raises `ProviderError`."""
    if callable(getattr(value, "invoke", None)):
        return ForeignAdapter(value, label, is_owned=True, timeout_seconds=timeout_seconds)
    raise ProviderError(f"{label}: open() returned {type(value).__name__}, expected an object with `invoke`", "config")


def adapt_provider(value: object, label: str) -> Adapter:
    """Return a provider for an object: an async `invoke`, a function of the prompt, or an agent.

    Raises `ProviderError` of the kind `config` for any other object. Messages begin with `label`.
    """
    if runner_of(value) is not None:
        return FunctionProvider(label, value, {})
    invoke = getattr(value, "invoke", None)
    if inspect.iscoroutinefunction(invoke):
        return ForeignAdapter(value, label, is_owned=False)
    if callable(value) and not isinstance(value, type):
        return FunctionProvider(label, value, {})
    found = f"the class {value.__name__}" if isinstance(value, type) else f"a value of type {type(value).__name__}"
    hint = "; its `invoke` is not async: hand over `object.invoke` itself" if callable(invoke) else ""
    expected = "a function that takes the prompt, or an object with an async `invoke`"
    raise ProviderError(f"{label} is {found}: expected {expected}{hint}", "config")
