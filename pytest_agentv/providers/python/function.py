"""Calls a Python function, or runs an agent: one from a targets file, or a user's object."""

import asyncio
import inspect
import time
from typing import Any, Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.base import JsonObject
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.python.answers import read_value
from pytest_agentv.providers.python.calling import Function, call_user
from pytest_agentv.providers.python.frameworks.table import AgentRunner, runner_of
from pytest_agentv.providers.python.question import build_question, conversation, prompt_text, require_no_media

_WAYS_OUT: Final = "set `messages: true`, or take a parameter `request` and read `request.prompt.media`"


class FunctionProvider:
    """Calls `function(prompt_text, **arguments)`, sync or async. A parameter named `request` gets the request as well.

    Or runs an agent of another package. `answers.py` says which return values are allowed.
    """

    mode: PromptMode = "lm"

    def __init__(
        self,
        label: str,
        function: Any,
        arguments: JsonObject,
        timeout_seconds: float | None = None,
        *,
        as_messages: bool | None = None,
    ) -> None:
        """Take a function.

        Args:
            label: The beginning of messages.
            function: A function or an agent. A sync function runs in a thread of its own.
            arguments: Extra keyword arguments of every call.
            timeout_seconds: The longest duration of a call; None: only the limit of the run.
            as_messages: Whether to pass the prompt as a list of messages; None: agents get the messages of
                conversations, functions get a text.
        """
        self._label = label
        self._function = function
        self._extra = arguments
        self._timeout_seconds = timeout_seconds
        self._as_messages = as_messages
        self._runner: AgentRunner | None = runner_of(function)
        self._turns = asyncio.Lock()

    @property
    def keeps_limits(self) -> bool:
        """Whether calls wait for others first."""
        return self._runner is not None and self._runner.is_serial

    async def check(self) -> None:
        """Do nothing: a function has no requirements."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        if self.keeps_limits:
            async with self._turns:
                return await self._invoke(request)
        return await self._invoke(request)

    async def close(self) -> None:
        """Do nothing: no resource is open."""

    async def _invoke(self, request: ProviderRequest) -> ProviderResponse:
        if request.prompt.media:  # pictures are read from disk
            function, positional, keywords = await asyncio.to_thread(self._call, request)
        else:
            function, positional, keywords = self._call(request)
        limits = (self._timeout_seconds, request.timeout_seconds)
        limit = min((limit for limit in limits if limit is not None), default=None)
        started = time.perf_counter()
        value = await call_user(function, positional, keywords, label=self._label, limit=limit)
        duration = round((time.perf_counter() - started) * 1000)
        response = await read_value(value, self._label)
        return response.replace(duration_ms=duration) if response.duration_ms is None else response

    def _call(self, request: ProviderRequest) -> tuple[Function, tuple[Any, ...], dict[str, Any]]:
        """Return the callable with its arguments."""
        if self._runner is not None:
            question = build_question(request, as_messages=self._as_messages)
            return self._runner.run, (self._function, question), dict(self._extra)
        keywords = self._arguments(request)
        if self._as_messages:
            return self._function, (conversation(request),), keywords
        if keywords.get("request") is not request:
            require_no_media(request, f"{self._label} gets a text, which", _WAYS_OUT)
        return self._function, (prompt_text(request),), keywords

    def _arguments(self, request: ProviderRequest) -> dict[str, Any]:
        arguments = dict(self._extra)
        try:
            signature = inspect.signature(self._function)
        except (TypeError, ValueError):  # some functions in C have no signature
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
