"""Asks a model through litellm."""

import asyncio
import functools
import importlib.util
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from weakref import WeakSet

from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.traces import TokenUsage
from pytest_agentv.prompts.prompt import ChatMessage
from pytest_agentv.providers.apis.base import AskedModel, Billing
from pytest_agentv.providers.llm.failure import read_failure
from pytest_agentv.providers.llm.limit import limited_replies
from pytest_agentv.providers.llm.litellm_import import begin_import, imported_litellm, load_litellm
from pytest_agentv.providers.llm.reply import Asked, build_response, read_cost, read_litellm
from pytest_agentv.providers.llm.request import build_arguments
from pytest_agentv.providers.media import chat_content
from pytest_agentv.runtime.retry import RequestError, RequestFailure

_NO_LIMIT_SECONDS: Final = 86_400.0
"""A limit for litellm that is longer than any of ours. It must be constant: litellm keeps a client for each value."""

_ONE_REQUEST: Final = {"num_retries": 0, "max_retries": 0, "timeout": _NO_LIMIT_SECONDS}

_GATEWAYS: Final = "litellm.responses.mcp.chat_completions_handler"

_OPEN: Final["WeakSet[LitellmClient]"] = WeakSet()
"""The clients that are not closed."""


@functools.cache
def _without_gateways() -> Mapping[str, bool]:
    """Return the argument that stops litellm from importing the package mcp to find MCP gateways among the tools.

    Older versions do not import it, and would send the argument to the model.
    """
    with suppress(ModuleNotFoundError):
        if importlib.util.find_spec(_GATEWAYS):
            return {"_skip_mcp_handler": True}
    return {}


class LitellmClient:
    """A client that calls the model of one target through litellm, without its retries, price download and telemetry.

    litellm keeps one client per URL and key, so that connections are reused.
    """

    def __init__(self, settings: AskedModel, environment: Mapping[str, str], model: str, target: str) -> None:
        self._model = model
        self._target = target
        self._arguments = build_arguments(settings.kind, settings.api_settings, environment)
        self._told = settings.api_settings
        self._masker = Masker(settings.secrets)
        _OPEN.add(self)

    def warm_up(self) -> None:
        """Start importing litellm, unless its import has started."""
        begin_import()

    async def ready(self) -> None:
        """Wait for the import of litellm. Raises `ProviderError` if it fails."""
        await load_litellm()

    async def ask(self, messages: Sequence[ChatMessage]) -> Asked:
        """Make one request. Raises `RequestError`, and `ProviderError` if litellm cannot be imported."""
        litellm = await load_litellm()
        turns = await self._turns(messages)
        arguments = {**self._arguments, **(_without_gateways() if self._told.tools else {}), **_ONE_REQUEST}
        started = time.perf_counter()
        try:
            with limited_replies():
                reply = await litellm.acompletion(**arguments, messages=turns)
        except Exception as error:  # noqa: BLE001 - litellm raises any exception; its chain has the cause
            failure = read_failure(error, self._model, self._target)
            raise RequestError(failure.replace(message=self._masker.mask(failure.message))) from None
        duration_ms = round((time.perf_counter() - started) * 1000)
        known = read_litellm(reply)
        if known is None:
            raise RequestError(RequestFailure(f"{self._model} replied without any choice", "crash"))
        response = build_response(known, self._model, self._told)
        return Asked(response.replace(duration_ms=duration_ms, cost_usd=read_cost(reply), cost_source="litellm"))

    async def price(self, model: str | None, usage: TokenUsage | None, billing: Billing) -> None:
        """Return None: litellm reports the price with its reply, by the target's `base_model` if it has one."""

    async def _turns(self, messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
        """Return the messages in the shape of OpenAI. Reads pictures and PDFs in a thread."""

        def build() -> list[dict[str, Any]]:
            return [{"role": message.role, "content": chat_content(message)} for message in messages]

        return await asyncio.to_thread(build) if any(message.parts for message in messages) else build()

    async def close(self) -> None:
        """Close litellm's clients, which live as long as the process, when the last target with a model is closed."""
        _OPEN.discard(self)
        litellm = imported_litellm()
        if not _OPEN and litellm is not None:
            with suppress(AttributeError):  # before version 1.74
                await litellm.close_litellm_async_clients()
                litellm.in_memory_llm_clients_cache.flush_cache()  # its keys are ids of loops, which may be reused
