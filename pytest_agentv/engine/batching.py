"""Makes one call for all cases of a target with `provider_batching`."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.base import Adapter, BatchProvider, ProviderRequest, ProviderResponse, one_for_each
from pytest_agentv.runtime.outcomes import Outcome, attempt_async

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request that waits for the others."""

    place: int
    request: ProviderRequest
    response: "asyncio.Future[Outcome[ProviderResponse]]"


class Batch:
    """Gathers the requests of a known number of cases and sends them together.

    Each case runs like any other until its call. When every case has reached its call or has ended before it, the
    batch makes one call. If the provider cannot batch, or the call fails, it sends each request separately. Used on
    the event loop.

    Source: evaluation-2026-01, "Provider-level batching flag".
    """

    def __init__(self, size: int, limit: int) -> None:
        self._missing = size
        self._limit = limit
        self._provider: Adapter | None = None
        self._waiting: list[_Waiting] = []
        self._sending: asyncio.Task[None] | None = None

    async def invoke(self, place: int, provider: Adapter, request: ProviderRequest) -> _Waiting:
        """Wait for the other cases, and return this request with its outcome."""
        waiting = _Waiting(place, request, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._provider = provider
        self.count()
        await waiting.response
        return waiting

    def count(self) -> None:
        """Count a case that has reached its call or will not reach it."""
        self._missing -= 1
        if self._missing == 0 and self._provider is not None:
            self._waiting.sort(key=lambda waiting: waiting.place)
            self._sending = asyncio.create_task(self._send(self._provider))

    async def _send(self, provider: Adapter) -> None:
        try:
            responses = await _send_together(provider, [waiting.request for waiting in self._waiting])
        except ProviderError as error:  # after any error, each case gets its own call
            _LOGGER.warning(
                "batching was asked for and did not work, each case is sent by itself: %s", masked(str(error))
            )
            await self._send_singly(provider)
            return
        for waiting, response in zip(self._waiting, responses, strict=True):
            _settle(waiting, Outcome(response))

    async def _send_singly(self, provider: Adapter) -> None:
        places = asyncio.Semaphore(self._limit)

        async def send(waiting: _Waiting) -> None:
            async with places:
                _settle(waiting, await attempt_async(lambda: provider.invoke(waiting.request)))

        await asyncio.gather(*(send(waiting) for waiting in self._waiting))


class BatchMember:
    """A provider for one case of a batch."""

    def __init__(self, batch: Batch, place: int) -> None:
        self._batch = batch
        self._place = place
        self._is_counted = False

    def wrap(self, provider: Adapter) -> "BatchedProvider":
        return BatchedProvider(provider, self)

    async def invoke(self, provider: Adapter, request: ProviderRequest) -> ProviderResponse:
        if self._is_counted:  # a retry after a time-out
            return await provider.invoke(request)
        self._is_counted = True
        sent = await self._batch.invoke(self._place, provider, request)
        return sent.response.result().get()

    def leave(self) -> None:
        """Let the other cases go on if this case has not reached its call."""
        if not self._is_counted:
            self._is_counted = True
            self._batch.count()


class BatchedProvider:
    """Sends the request of one case together with those of the others."""

    keeps_limits = True

    def __init__(self, provider: Adapter, member: BatchMember) -> None:
        self.mode: PromptMode = provider.mode
        self._provider = provider
        self._member = member

    async def check(self) -> None:
        await self._provider.check()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        return await self._member.invoke(self._provider, request)

    async def close(self) -> None:
        await self._provider.close()


async def _send_together(provider: Adapter, requests: Sequence[ProviderRequest]) -> Sequence[ProviderResponse]:
    if not isinstance(provider, BatchProvider):
        raise ProviderError("this kind of provider cannot batch", "config")
    _LOGGER.debug("batching: %d cases go out in one call", len(requests))
    outcome = await attempt_async(lambda: provider.invoke_batch(requests))
    if outcome.error is not None:
        raise ProviderError(str(outcome.error) or type(outcome.error).__name__) from outcome.error
    return one_for_each(requests, outcome.get())


def _settle(waiting: _Waiting, outcome: Outcome[ProviderResponse]) -> None:
    if not waiting.response.done():
        waiting.response.set_result(outcome)
