"""Models behind an API: requests with retries, asked directly or through litellm."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.traces import TokenUsage
from pytest_agentv.prompts.prompt import ChatMessage, PromptMode
from pytest_agentv.providers.apis.base import AskedModel, Billing, Embeddings
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetEnvironment
from pytest_agentv.providers.llm.reply import Asked
from pytest_agentv.providers.llm.request import build_messages
from pytest_agentv.providers.repeating import Repeater

if TYPE_CHECKING:  # the tables are loaded after a model's reply
    from pytest_agentv.providers.apis.prices import Price


class ModelClient(Protocol):
    """A client for the model of one target."""

    def warm_up(self) -> None:
        """Start in the background the preparations of the first request."""

    async def ready(self) -> None:
        """Wait for the preparations of `warm_up`. Raises `ProviderError` if they fail."""

    async def ask(self, messages: Sequence[ChatMessage]) -> Asked:
        """Make one request. Raises `RequestError`, and `ProviderError` if a retry could not help."""
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
        self._repeater = Repeater(settings.retry, self._model, settings.secrets, sleep)
        self._client = _create_client(settings, environment, self._model)
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
        asked, log = await self._repeater.ask(lambda: self._client.ask(messages), request.timeout_seconds)
        response = asked.response
        is_reported = response.cost_usd is not None
        model, usage = response.raw["model"], response.token_usage
        price = None if is_reported else await self._client.price(model, usage, asked.billing)
        cost = {} if price is None else {"cost_usd": price.usd, "cost_source": price.source}
        return response.replace(raw={**response.raw, **log.to_raw()}, **cost)

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


def _create_client(settings: AskedModel, environment: TargetEnvironment, model: str) -> ModelClient:
    if settings.uses_litellm:
        from pytest_agentv.providers.llm.litellm import LitellmClient  # noqa: PLC0415 - only for targets that name it

        return LitellmClient(settings, environment.variables, model, environment.where)
    from pytest_agentv.providers.llm.direct import DirectClient  # noqa: PLC0415 - as above

    return DirectClient(settings, environment.variables, model, environment.where)
