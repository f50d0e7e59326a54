"""Calls a provider, again after a time-out."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.providers.base import Adapter, ProviderRequest, ProviderResponse, require_answer
from pytest_agentv.runtime.outcomes import attempt_async
from pytest_agentv.runtime.user_errors import describe_error, leaves

_GRACE_SECONDS: Final = 10.0
"""Providers keep the time limit themselves and need a moment to end their processes; this limit is the backstop."""


@dataclass(frozen=True, slots=True)
class Attempts(Record):
    """What came of asking: a response, or the last attempt's error."""

    count: int
    """Calls made, the last one included."""
    duration_ms: float | None
    """Wall time of the last call; None: there was none."""
    response: ProviderResponse | None = None
    error: ProviderError | None = None
    requests: JsonObject = field(default_factory=dict)
    """What the provider told of its requests of an API and of its log, under the names that results have for it."""


async def invoke_with_retries(provider: Adapter, request: ProviderRequest, max_retries: int) -> Attempts:
    """Call a provider; a call that timed out is repeated up to `max_retries` times, whatever the time-out's wording.

    Any failure of the provider is handed back as a value. Source: decisions 26, "Timeout with retry".
    """
    requests: JsonObject = {}
    while True:
        started = time.perf_counter()
        try:
            response = require_answer(await invoke_within_limit(provider, request))
            requests = _add_requests(requests, {} if response.cached else response.raw)
            return Attempts(request.attempt + 1, _milliseconds_since(started), response, requests=requests)
        except ProviderError as failure:
            error = failure
        requests = _add_requests(requests, error.raw)
        if error.kind != "timeout" or request.attempt >= max_retries:
            return Attempts(request.attempt + 1, _milliseconds_since(started), error=error, requests=requests)
        request = request.replace(attempt=request.attempt + 1)


async def invoke_within_limit(provider: Adapter, request: ProviderRequest) -> ProviderResponse:
    """Call a provider once. Raises `ProviderError` for whatever goes wrong: providers of plugins may raise anything."""
    limit = None if request.timeout_seconds is None else request.timeout_seconds + _GRACE_SECONDS
    if getattr(provider, "keeps_limits", False):
        limit = None  # the call has to wait for others first
    started = time.monotonic()
    try:
        async with asyncio.timeout(limit):
            outcome = await attempt_async(lambda: provider.invoke(request))
    except TimeoutError:
        raise _timeout_error(request) from None
    if limit is not None and time.monotonic() - started > limit:  # it blocked the loop, and the timeout with it
        raise _timeout_error(request)
    error = outcome.error
    if error is None:
        return outcome.get()
    if isinstance(error, ProviderError):
        raise error
    is_timeout = all(isinstance(leaf, TimeoutError) for leaf in leaves(error))
    raise ProviderError(describe_error(error), "timeout" if is_timeout else "crash") from error


def _timeout_error(request: ProviderRequest) -> ProviderError:
    return ProviderError(f"no answer within {request.timeout_seconds or 0:g} s", "timeout")


def _add_requests(before: JsonObject, raw: JsonObject) -> JsonObject:
    sums = {name: before.get(name, 0) + raw[name] for name in ("request_attempts", "waited_ms") if name in raw}
    return {**before, **sums, **{name: raw[name] for name in ("last_error", "log_file") if name in raw}}


def _milliseconds_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000)
