"""Models behind an API: requests with retries, and models that are asked directly."""

import asyncio
import functools
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from pytest_agentv.cases.prompts import ChatMessage, PromptMode
from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.messages import TokenUsage
from pytest_agentv.providers.api.base import ApiRequest, Billing, Embeddings, without
from pytest_agentv.providers.api.client import (
    HttpClient,
    begin,
    import_aiohttp,
    loaded,
    refuses_form,
    repeated,
    without_choice,
)
from pytest_agentv.providers.api.model import Model
from pytest_agentv.providers.api.replies import Price, build_messages, build_response, load_tables, price
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetEnvironment
from pytest_agentv.runtime.retry import RequestError, RequestFailure


class LlmProvider(ABC):
    """A model. Its requests are repeated by the target's retry policy."""

    mode: PromptMode = "lm"
    keeps_limits = True

    def __init__(self, settings: Model, environment: TargetEnvironment) -> None:
        self._api = settings.api(environment.variables)
        self._model = f"model {settings.model!r} ({settings.kind})"
        self._target = environment.where
        self._policy = settings.retry
        self._binds = True
        """Whether the server takes a schema of the reply, as far as is known."""

    async def check(self) -> None:  # noqa: B027 - it is no step of a kind of models
        """Do nothing, because a request to a model costs money."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Ask the model, with repetitions by the target's retry policy. The time limit covers all requests.

        The client is imported before, so that a model cannot time out before it was asked. The price is looked up
        afterwards, so that an answer that has arrived neither times out nor is paid for again.

        Raises `ProviderError`. Its `raw` holds `request_attempts`, `waited_ms` and `last_error`, like that of a
        response.
        """
        messages = build_messages(request)
        await self._ready()
        ask = functools.partial(self._ask_bound, messages, request.schema)
        (response, billing), log = await repeated(ask, self._policy, self._model, request.timeout_seconds)
        response = response.replace(raw={**response.raw, **log.to_raw()})
        if response.cost_usd is not None or response.cost_source is not None:
            return response  # the reply told it, or litellm looked it up
        found = await self._price(response.raw["model"], response.token_usage, billing)
        return response if found is None else response.replace(cost_usd=found.usd, cost_source=found.source)

    async def _ask_bound(
        self, messages: Sequence[ChatMessage], schema: JsonObject | None
    ) -> tuple[ProviderResponse, Billing]:
        """Ask once. A server that refuses a schema of the reply is asked without one from then on."""
        if schema is not None and self._binds:
            try:
                return await self._ask(messages, schema)
            except RequestError as error:
                if not refuses_form(error.failure):
                    raise
                self._binds = False
        return await self._ask(messages, None)

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""

    @abstractmethod
    async def _ready(self) -> None:
        """Wait for the import of the client. Raises `ProviderError` if it fails."""

    @abstractmethod
    async def _ask(
        self, messages: Sequence[ChatMessage], schema: JsonObject | None
    ) -> tuple[ProviderResponse, Billing]:
        """Make one request, whose reply is bound to a schema if there is one. Raises `RequestError`."""
        raise NotImplementedError

    async def _price(self, model: str | None, usage: TokenUsage | None, billing: Billing) -> Price | None:
        """Return the price of a reply, by the API's name of the model; None if unknown."""
        await loaded(load_tables, "the tables of prices")
        return price(self._api.base_model or model or self._api.model, self._api.price_provider, usage, billing)


_LIMITS: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""Names of one parameter. Each is tried if a server refuses the other."""
_TOO_MANY: Final = re.compile(r"max_tokens: \d+ > (\d+)")
"""In the words with which Anthropic refuses a limit that a model does not have."""
_SYSTEM: Final = "system_instruction"
"""Gemini's name of the system message."""


class DirectProvider(LlmProvider):
    """A model whose API is asked directly."""

    needs_no_task = True

    def __init__(self, settings: Model, environment: TargetEnvironment) -> None:
        super().__init__(settings, environment)
        self._http = HttpClient(self._model, self._target, environment.variables)
        self._instead: dict[str, JsonObject] = {}
        """What is sent instead of parameters that the model does not take, by their paths."""
        self._warnings: list[str] = []

    def warm_up(self) -> None:
        """Start importing the HTTP client."""
        begin(import_aiohttp)

    async def _ready(self) -> None:
        await self._http.ready()
        begin(load_tables)  # takes longer, and is done while the model answers

    async def _ask(
        self, messages: Sequence[ChatMessage], schema: JsonObject | None
    ) -> tuple[ProviderResponse, Billing]:
        has_files = any(message.parts for message in messages)  # pictures and PDFs, which a thread reads
        build = self._api.request
        request = await asyncio.to_thread(build, messages, schema) if has_files else build(messages, schema)
        raw, duration_ms = await self._post(request, is_large=has_files, is_bound=schema is not None)
        reply = self._api.read(raw)
        if reply is None:
            raise RequestError(without_choice(raw, self._model))
        metrics = {"duration_ms": duration_ms, "cost_usd": reply.billing.cost_usd}
        response = build_response(reply, self._model, self._api).replace(**metrics, warnings=tuple(self._warnings))
        return response, reply.billing

    async def _post(self, plain: ApiRequest, *, is_large: bool, is_bound: bool) -> tuple[JsonObject, int]:
        """Send a request and return the reply and its duration. What the model does not take is left out.

        Not the form of a reply that is bound to a schema: without one, the target's own form may be right.
        """
        request = self._adapted(plain)
        while True:
            started = time.perf_counter()
            try:
                reply = await self._http.post(request, is_large=is_large)
                return reply, round((time.perf_counter() - started) * 1000)
            except RequestError as error:
                if is_bound and refuses_form(error.failure):
                    raise
                self._learn(error.failure, request.body)
                again = self._adapted(plain)
                if again == request:
                    raise
                request = again

    def _learn(self, failure: RequestFailure, sent: JsonObject) -> None:
        """Note for the run what the model does not take, if a refusal says it."""
        path = failure.refused
        lower = None if self._api.max_output_tokens else _TOO_MANY.search(failure.message)
        if failure.status == HTTPStatus.BAD_REQUEST and lower:
            self._instead.setdefault("max_tokens", {"max_tokens": int(lower[1])})
        elif path is not None and path not in self._instead:
            other = _LIMITS.get(path)
            if other is not None and other not in self._instead:
                self._instead[path] = {other: sent[path]}
                return
            self._instead[path] = {}
            if path != _SYSTEM:
                self._warnings.append(f"it is asked without `{path}` in this run: {failure.message}")

    def _adapted(self, request: ApiRequest) -> ApiRequest:
        body = request.body
        for path, instead in self._instead.items():
            new = instead if path in body else {}
            if path == _SYSTEM and path in body:  # it becomes a part of the first question
                new = {"contents": [{"role": "user", **body[path]}, *body["contents"]]}
            body = {**without(body, path), **new}
        return request.replace(body=body) if self._instead else request

    async def embed(self, texts: Sequence[str], timeout_seconds: float | None) -> Embeddings:
        """Return the vectors of some texts, with repetitions like `invoke`.

        Raises `ProviderError`, also for an API without embeddings.
        """
        request = self._api.embed(texts)
        await self._ready()
        ask = functools.partial(self._embed, request, len(texts))
        found, _ = await repeated(ask, self._policy, self._model, timeout_seconds)
        cost = await self._price(found.model, TokenUsage(found.tokens, 0) if found.tokens else None, Billing())
        return found.replace(cost_usd=None if cost is None else cost.usd)

    async def _embed(self, request: ApiRequest, number: int) -> Embeddings:
        raw = await self._http.post(request)
        found = self._api.read_embeddings(raw)
        if found is None and raw.get("error"):
            raise RequestError(without_choice(raw, self._model))
        if found is None or len(found.vectors) != number:
            raise RequestError(RequestFailure(f"{self._model} replied without a vector for each text", "crash"))
        return found

    async def close(self) -> None:
        await self._http.close()
