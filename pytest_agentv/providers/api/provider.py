"""Models behind an API: requests with retries, asked directly or through litellm."""

import asyncio
import functools
import importlib
import re
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

from pytest_agentv.cases.prompts import ChatMessage, PromptMode
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.messages import TokenUsage
from pytest_agentv.providers.api.base import (
    Api,
    ApiRequest,
    AskedModel,
    Billing,
    EmbeddingApi,
    Embeddings,
    extended,
    without,
)
from pytest_agentv.providers.api.client import Repeater, refuses_form, without_choice
from pytest_agentv.providers.api.litellm import LitellmClient
from pytest_agentv.providers.api.replies import Asked, build_messages, build_response
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetEnvironment
from pytest_agentv.runtime.retry import RequestError, RequestFailure
from pytest_agentv.runtime.user_code import abandon

if TYPE_CHECKING:
    from pytest_agentv.providers.api.replies import Price  # the tables are loaded after a model's reply


class ModelClient(Protocol):
    """A client for the model of one target."""

    def warm_up(self) -> None:
        """Start in the background the preparations of the first request."""

    async def ready(self) -> None:
        """Wait for the preparations of `warm_up`. Raises `ProviderError` if they fail."""

    async def ask(self, messages: Sequence[ChatMessage], schema: JsonObject | None = None) -> Asked:
        """Make one request, whose reply is bound to a schema if there is one.

        Raises `RequestError`, and `ProviderError` if a retry could not help.
        """
        ...

    async def price(self, model: str | None, usage: TokenUsage | None, billing: Billing) -> "Price | None":
        """Return the price of a reply, by the API's name of the model; None if unknown, or if litellm reported it."""

    async def close(self) -> None:
        """Close the connections."""


@runtime_checkable
class Embedder(ModelClient, Protocol):
    """A client that gives embeddings as well."""

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Make one request for the vectors of some texts. Raises like `ModelClient.ask`."""


class LlmProvider:
    """A model. Its requests are repeated by the target's retry policy."""

    mode: PromptMode = "lm"
    keeps_limits = True

    def __init__(
        self,
        settings: AskedModel,
        environment: TargetEnvironment,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._model = f"model {settings.model!r} ({settings.kind})"
        self._repeater = Repeater(settings.retry, self._model, sleep)
        client = LitellmClient if settings.uses_litellm else DirectClient
        self._client: ModelClient = client(settings, environment.variables, self._model, environment.where)
        self._binds = True
        """Whether the server takes a schema of the reply, as far as is known."""
        self.reads_environ = settings.uses_litellm
        self.needs_no_task = not settings.uses_litellm  # litellm may cancel the task that calls it

    def warm_up(self) -> None:
        """Start importing what the first request needs."""
        self._client.warm_up()

    async def check(self) -> None:
        """Do nothing, because a request to a model costs money."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Ask the model, with repetitions by the target's retry policy. The time limit covers all requests.

        The client is imported before, so that a model cannot time out before it was asked. The price is looked up
        afterwards, so that an answer that has arrived neither times out nor is paid for again.

        Raises `ProviderError`. Its `raw` holds `request_attempts`, `waited_ms` and `last_error`, like that of a
        response.
        """
        messages = build_messages(request)
        await self._client.ready()
        asked, log = await self._repeater.ask(lambda: self._ask(messages, request.schema), request.timeout_seconds)
        response = asked.response
        is_reported = response.cost_usd is not None
        model, usage = response.raw["model"], response.token_usage
        price = None if is_reported else await self._client.price(model, usage, asked.billing)
        cost = {} if price is None else {"cost_usd": price.usd, "cost_source": price.source}
        return response.replace(raw={**response.raw, **log.to_raw()}, **cost)

    async def _ask(self, messages: Sequence[ChatMessage], schema: JsonObject | None) -> Asked:
        """Ask once. A server that refuses a schema of the reply is asked without one from then on."""
        if schema is not None and self._binds:
            try:
                return await self._client.ask(messages, schema)
            except RequestError as error:
                if not refuses_form(error.failure):
                    raise
                self._binds = False
        return await self._client.ask(messages)

    async def embed(self, texts: Sequence[str], timeout_seconds: float | None) -> Embeddings:
        """Return the vectors of some texts, with repetitions like `invoke`. Raises `ProviderError`."""
        if not isinstance(self._client, Embedder):
            raise ProviderError(f"{self._model} gives no embeddings through litellm: leave out `client`", "config")
        client = self._client
        await client.ready()
        found, _ = await self._repeater.ask(lambda: client.embed(texts), timeout_seconds)
        price = await client.price(found.model, TokenUsage(found.tokens, 0) if found.tokens else None, Billing())
        return found.replace(cost_usd=None if price is None else price.usd)

    async def close(self) -> None:
        await self._client.close()


_LIMITS: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""Names of one parameter. Each is tried if a server refuses the other."""
_TOO_MANY: Final = re.compile(r"max_tokens: \d+ > (\d+)")
"""In the words with which Anthropic refuses a limit that a model does not have."""
_SYSTEM: Final = "system_instruction"
"""Gemini's name of the system message."""


class DirectClient:
    """A client that calls the API of one target directly."""

    def __init__(self, settings: AskedModel, environment: Mapping[str, str], model: str, target: str) -> None:
        self._api: Api = settings.api(environment)
        self._environment = environment
        self._model = model
        self._target = target
        self._settings = settings
        self._told = settings.api_settings
        self._http: Any = None
        self._instead: dict[str, JsonObject] = {}
        """What is sent instead of parameters that the model does not take, by their paths."""
        self._warnings: list[str] = []

    def warm_up(self) -> None:
        """Start importing the HTTP client, unless its import has started."""
        load_network()

    async def ready(self) -> None:
        """Wait for the import of the HTTP client. Raises `ProviderError` if it fails."""
        await _loaded(load_network().client)

    async def ask(self, messages: Sequence[ChatMessage], schema: JsonObject | None = None) -> Asked:
        """Make one request. Raises `RequestError`, and `ProviderError` if the HTTP client cannot be imported."""
        has_files = any(message.parts for message in messages)  # pictures and PDFs, which a thread reads
        build = functools.partial(self._api.request, messages, schema)
        request = await asyncio.to_thread(build) if has_files else build()
        plain = extended(request, self._told).replace(is_large=has_files)
        raw, duration_ms = await self._post(plain, is_bound=schema is not None)
        reply = self._api.read(raw)
        if reply is None:
            raise RequestError(without_choice(raw, self._model))
        response = build_response(reply, self._model, self._told)
        metrics = {"duration_ms": duration_ms, "cost_usd": reply.billing.cost_usd}
        return Asked(response.replace(**metrics, warnings=tuple(self._warnings)), reply.billing)

    async def price(self, model: str | None, usage: TokenUsage | None, billing: Billing) -> "Price | None":
        """Return the price of a reply by the price tables; None if unknown."""
        prices = await _loaded(load_network().prices)
        name = self._told.base_model or model or self._told.model
        found: Price | None = prices.price(name, self._api.price_provider, usage, billing)
        return found

    async def _post(self, plain: ApiRequest, *, is_bound: bool) -> tuple[JsonObject, int]:
        """Send a request and return the reply and its duration. What the model does not take is left out.

        Not the form of a reply that is bound to a schema: without one, the target's own form may be right.
        """
        http = await self._opened()
        request = self._adapted(plain)
        while True:
            started = time.perf_counter()
            try:
                return await http.post(request), round((time.perf_counter() - started) * 1000)
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
        lower = None if self._told.max_output_tokens else _TOO_MANY.search(failure.message)
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
        return request.replace(body=body)

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of some texts. Raises like `ask`, and `ProviderError` for an API without embeddings."""
        api = self._api
        if not isinstance(api, EmbeddingApi):
            raise ProviderError(f"{self._model} gives no embeddings: openai, azure and gemini targets do", "config")
        http = await self._opened()
        raw = await http.post(extended(api.embed(texts), self._told))
        found = api.read_embeddings(raw)
        if found is None and raw.get("error"):
            raise RequestError(without_choice(raw, self._model))
        missing = -1 if found is None else len(texts) - len(found.vectors)
        if found is None or missing < 0 or (missing and not found.is_numbered):
            raise RequestError(RequestFailure(f"{self._model} replied without a vector for each text", "crash"))
        return found.replace(vectors=(*found.vectors, *[None] * missing))

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.close()

    async def _opened(self) -> Any:
        client = await _loaded(load_network().client)
        if self._http is None:
            self._http = client.HttpClient(self._model, self._target, self._environment)
        return self._http


class Network(NamedTuple):
    """The modules that requests need, each ready when it is imported."""

    client: "Future[Any]"
    prices: "Future[Any]"
    """Ready when its tables are loaded."""


@functools.cache
def load_network() -> Network:
    """Import the HTTP client and then the price tables, once per process, in a thread, so that the loop is free.

    A request waits only for the client. The tables take longer, and are imported while the model answers.
    """
    network = Network(Future(), Future())
    for future in network:
        future.set_running_or_notify_cancel()  # a cancelled case must not cancel the import for others

    def load() -> None:
        _settle(network.client, lambda: importlib.import_module("pytest_agentv.providers.api.client"))
        _settle(network.prices, _load_prices)

    thread = threading.Thread(target=load, name="agentv-import-http", daemon=True)
    thread.start()
    abandon(thread)  # a run whose requests all fail never waits for the tables
    return network


def _load_prices() -> Any:
    prices = importlib.import_module("pytest_agentv.providers.api.replies")
    prices.load_tables()
    return prices


def _settle(future: "Future[Any]", load: Callable[[], Any]) -> None:
    try:
        future.set_result(load())
    except BaseException as error:  # noqa: BLE001 - all waiting cases raise it again
        future.set_exception(error)


async def _loaded(future: "Future[Any]") -> Any:
    """Wait for a module. Raises `ProviderError` if its import fails."""
    try:
        # Waiting for a finished future would take two more turns of the loop per request.
        return future.result() if future.done() else await asyncio.wrap_future(future)
    except ImportError as error:
        raise ProviderError(f"the HTTP client cannot be imported: {error}", "config") from error
