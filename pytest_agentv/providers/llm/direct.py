"""Asks a model through its API directly: `azure`, `anthropic`, `gemini`, `openai`."""

import asyncio
import functools
import importlib
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.traces import TokenUsage
from pytest_agentv.prompts.prompt import ChatMessage
from pytest_agentv.providers.apis.base import Api, ApiRequest, AskedModel, EmbeddingApi, Embeddings, extended
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.llm.reply import build_response
from pytest_agentv.runtime.retry import RequestError, RequestFailure

_ROOM: Final = "pytest_agentv.providers.apis"


class DirectClient:
    """One target's way to its API."""

    def __init__(self, settings: AskedModel, environment: Mapping[str, str], model: str, target: str) -> None:
        self._api: Api = settings.api(environment)
        self._environment = environment
        self._model = model
        self._target = target
        self._settings = settings
        self._told = settings.api_settings
        self._http: Any = None

    def warm_up(self) -> None:
        """Start importing the HTTP client, unless that has been done."""
        load_network()

    async def ready(self) -> None:
        """Wait for the import of the HTTP client. Raises `ProviderError` when it cannot be imported."""
        await self._modules()

    async def ask(self, messages: Sequence[ChatMessage]) -> ProviderResponse:
        """Make one request. Raises `RequestError`, and `ProviderError` when the HTTP client cannot be imported."""
        client, prices = await self._modules()
        if self._http is None:
            self._http = client.HttpClient(self._model, self._target, self._environment)
        request = await self._request(messages)
        started = time.perf_counter()
        raw = await self._http.post(request)
        duration_ms = round((time.perf_counter() - started) * 1000)
        reply = self._api.read(raw)
        if reply is None:
            raise RequestError(RequestFailure(f"{self._model} replied without any choice", "crash"))
        name = self._told.base_model or reply.model or self._told.model
        price = prices.price(name, self._api.price_provider, reply.usage)
        known = {} if price is None else {"cost_usd": price.usd, "cost_source": price.source}
        return build_response(reply, self._model, self._told).replace(duration_ms=duration_ms, **known)

    async def _request(self, messages: Sequence[ChatMessage]) -> ApiRequest:
        """Build a request; one with pictures or PDFs in a thread, which reads them."""
        if not any(message.parts for message in messages):
            return extended(self._api.request(messages), self._told)
        request = await asyncio.to_thread(self._api.request, messages)
        return extended(request, self._told).replace(is_large=True)

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of some texts. Raises as `ask`, and `ProviderError` for an API that has none."""
        api = self._api
        if not isinstance(api, EmbeddingApi):
            raise ProviderError(f"{self._model} gives no embeddings: openai, azure and gemini targets do", "config")
        client, prices = await self._modules()
        if self._http is None:
            self._http = client.HttpClient(self._model, self._target, self._environment)
        request = extended(api.embed(texts), self._told.replace(extra_body={}))
        found = api.read_embeddings(await self._http.post(request))
        if found is None or len(found.vectors) != len(texts):
            raise RequestError(RequestFailure(f"{self._model} replied without a vector for each text", "crash"))
        model, usage = self._told.base_model or found.model or self._told.model, TokenUsage(found.tokens, 0)
        price = prices.price(model, self._api.price_provider, usage) if found.tokens else None
        return found.replace(cost_usd=None if price is None else price.usd)

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.close()

    async def _modules(self) -> tuple[Any, Any]:
        try:
            return await asyncio.wrap_future(load_network())
        except ImportError as error:
            raise ProviderError(f"the HTTP client cannot be imported: {error}", "config") from error


@functools.cache
def load_network() -> "Future[tuple[Any, Any]]":
    """Start importing the HTTP client and the price tables, once per process, in a thread: the loop serves others."""
    future: Future[tuple[Any, Any]] = Future()
    future.set_running_or_notify_cancel()  # a case that is cancelled must not cancel it for the others

    def load() -> None:
        try:
            prices = importlib.import_module(f"{_ROOM}.prices")
            client = importlib.import_module(f"{_ROOM}.client")
            future.set_result((client, prices))
        except BaseException as error:  # noqa: BLE001 - it is raised again, by all who wait
            future.set_exception(error)

    threading.Thread(target=load, name="agentv-import-http", daemon=True).start()
    return future
