"""Models behind an API: requests with retries, asked directly or through litellm."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.text import format_number
from pytest_agentv.prompts.prompt import ChatMessage, PromptMode
from pytest_agentv.providers.apis.base import AskedModel, Embeddings
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetEnvironment
from pytest_agentv.providers.llm.request import build_messages
from pytest_agentv.runtime.retry import RequestError, RequestLog, is_retryable, with_retries

T = TypeVar("T")


class ModelClient(Protocol):
    """One target's way to its model."""

    def warm_up(self) -> None:
        """Start in the background what the first request would wait for."""

    async def ready(self) -> None:
        """Wait for what `warm_up` starts. Raises `ProviderError` when it cannot be had."""

    async def ask(self, messages: Sequence[ChatMessage]) -> ProviderResponse:
        """Make one request. Raises `RequestError`, and `ProviderError` for what no second request could mend."""
        ...

    async def close(self) -> None:
        """Close the connections."""


@runtime_checkable
class Embedder(Protocol):
    """A client that gives embeddings as well."""

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Make one request for the vectors of some texts. Raises as `ModelClient.ask`."""


class LlmProvider:
    """A model. Its requests are repeated as the target's retry policy says."""

    mode: PromptMode = "lm"
    keeps_limits = True

    def __init__(
        self,
        settings: AskedModel,
        environment: TargetEnvironment,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._retry = settings.retry
        self._model = f"model {settings.model!r} ({settings.kind})"
        self._masker = Masker(settings.secrets)
        self._client = _create_client(settings, environment, self._model)
        self.reads_environ = settings.uses_litellm
        self._sleep = sleep

    def warm_up(self) -> None:
        """Start importing what the first request needs."""
        self._client.warm_up()

    async def check(self) -> None:
        """Asking a model costs money: there is no probe."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Ask the model, again where the target's retry policy says so; the time limit holds for all requests.

        The import of a client comes before: a model that was not asked must not time out.

        Raises `ProviderError`; its `raw` tells, as that of a response, of `request_attempts`, `waited_ms` and
        `last_error`.
        """
        messages = build_messages(request)
        response, log = await self._repeat(lambda: self._client.ask(messages), request.timeout_seconds)
        return response.replace(raw={**response.raw, **log.to_raw()})

    async def embed(self, texts: Sequence[str], timeout_seconds: float | None) -> Embeddings:
        """Return the vectors of some texts, with repetitions as `invoke` has them. Raises `ProviderError`."""
        if not isinstance(self._client, Embedder):
            raise ProviderError(f"{self._model} gives no embeddings through litellm: leave out `client`", "config")
        client = self._client
        return (await self._repeat(lambda: client.embed(texts), timeout_seconds))[0]

    async def _repeat(self, ask: Callable[[], Awaitable[T]], limit: float | None) -> tuple[T, RequestLog]:
        """Ask, and again where the policy says so. Raises `ProviderError`."""
        await self._client.ready()
        log = RequestLog()
        try:
            async with asyncio.timeout(limit):
                found = await with_retries(
                    lambda: self._ask(ask),
                    self._retry,
                    log,
                    deadline=None if limit is None else time.monotonic() + limit,
                    sleep=self._sleep,
                )
        except RequestError as error:
            message = error.failure.message + self._describe_attempts(error, log)
            raise ProviderError(message, error.failure.kind, log.to_raw()) from None
        except TimeoutError:
            raise ProviderError(self._describe_timeout(limit, log), "timeout", log.to_raw()) from None
        return found, log

    async def close(self) -> None:
        await self._client.close()

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            return await ask()
        except RequestError as error:  # a server may repeat the key in its message
            failure = error.failure
            raise RequestError(failure.replace(message=self._masker.mask(failure.message))) from None

    def _describe_attempts(self, error: RequestError, log: RequestLog) -> str:
        policy = self._retry
        if is_retryable(error.failure, policy) and log.attempts <= policy.max_retries:
            return f"; no time is left for another request ({_requests(log)})"
        return f" ({_requests(log)})" if log.attempts > 1 else ""

    def _describe_timeout(self, limit: float | None, log: RequestLog) -> str:
        before = f" ({_requests(log)}; before: {log.last_error})" if log.last_error else ""
        return f"no answer from {self._model} within {format_number(limit or 0)} s{before}"


def _create_client(settings: AskedModel, environment: TargetEnvironment, model: str) -> ModelClient:
    if settings.uses_litellm:
        from pytest_agentv.providers.llm.litellm import LitellmClient  # noqa: PLC0415 - only who names it needs it

        return LitellmClient(settings, environment.variables, model, environment.where)
    from pytest_agentv.providers.llm.direct import DirectClient  # noqa: PLC0415 - as above

    return DirectClient(settings, environment.variables, model, environment.where)


def _requests(log: RequestLog) -> str:
    noun = "request" if log.attempts == 1 else "requests"
    return f"{log.attempts} {noun}, {log.waited_ms / 1000:.1f} s of waiting"
