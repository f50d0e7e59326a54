"""The `mock` provider: canned answers, for dry runs and for trying an eval file out."""

import asyncio
import random
from typing import Any, Final

from pydantic import Field

from pytest_agentv.cases.prompts import PromptMode
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import Json, format_number
from pytest_agentv.model.kind import Items
from pytest_agentv.model.messages import Message
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetAdapter, TargetEnvironment
from pytest_agentv.providers.kind import Provider, WireError, parse_response
from pytest_agentv.targets.fields import Milliseconds, OptionalText

DEFAULT_RESPONSE: Final = '{"answer":"Mock provider response"}'
DRY_RUN_RESPONSE: Final = '{"answer":"Mock dry-run response"}'


class Mock(Provider):
    """A canned answer, after an optional delay."""

    kind = "mock"
    takes_system_prompt = True
    judges_itself = True

    response: str | None = Field(default=None, description="the answer")
    delay_ms: Milliseconds = Field(default=0, description="the wait before the answer")
    delay_min_ms: Milliseconds = Field(default=0, description="the shortest of random waits")
    delay_max_ms: Milliseconds = Field(default=0, description="the longest of random waits")
    trace: Items[dict[str, Any]] | None = Field(default=None, description="events of the way to the answer")
    output_messages: Items[dict[str, Any]] | None = Field(default=None, description="messages, in place of the answer")
    finish_reason: OptionalText = Field(default=None, description="why the answer ends, as APIs of models say it")

    def open(self, environment: TargetEnvironment) -> "MockProvider":
        return MockProvider(environment.name, self)


class MockProvider(TargetAdapter):
    """Answers the same to every request, after an optional delay. Source: "Mock provider for dry-run"."""

    mode: PromptMode = "lm"
    needs_no_task = True

    def __init__(self, name: str, settings: Mock) -> None:
        self._name = name
        self._settings = settings
        is_text = settings.output_messages is None and settings.trace is None
        self._text_answer = self._answer() if is_text else None
        """Created once: nobody can change it, unlike lists of messages and events."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        low, high = self._settings.delay_min_ms, self._settings.delay_max_ms
        is_random = low or high
        delay_ms = random.uniform(low, max(low, high)) if is_random else self._settings.delay_ms  # noqa: S311 - no secret
        limit, seconds = request.timeout_seconds, delay_ms / 1000
        if limit is not None and seconds > limit:
            await asyncio.sleep(limit)
            raise ProviderError(f"target '{self._name}' timed out after {format_number(limit)}s", "timeout")
        if seconds:
            await asyncio.sleep(seconds)
        return self._answer() if self._text_answer is None else self._text_answer

    def _answer(self) -> ProviderResponse:
        settings = self._settings
        text = DEFAULT_RESPONSE if settings.response is None else settings.response
        if not settings.output_messages and settings.trace is None:
            return ProviderResponse((Message("assistant", content=text),), finish_reason=settings.finish_reason)

        data: dict[str, Json] = {
            "text": text,
            "output_messages": None if settings.output_messages is None else list(settings.output_messages),
            "trace": None if settings.trace is None else list(settings.trace),
            "finish_reason": settings.finish_reason,
        }
        try:
            return parse_response(data).replace(is_text_only=False)  # it certainly calls no tool
        except WireError as error:
            raise ProviderError(f"target '{self._name}': {error}", "config") from error
