"""Calls a provider, and retries after a time-out."""

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import field
from typing import Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.base import JsonObject, Record, is_amount
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.models.records import record
from pytest_agentv.providers.base import Adapter, ProviderRequest, ProviderResponse, require_answer
from pytest_agentv.runtime.outcomes import attempt_async, attempt_here
from pytest_agentv.runtime.user_errors import describe_error, leaves, told

_LOGGER: Final = logging.getLogger(__name__)
_GRACE_SECONDS: Final = 10.0
"""Extra time before this limit acts. Providers keep the time limit themselves and need time to end processes."""

_FIGURES: Final = ("request_attempts", "waited_ms")


@record
class Attempts(Record):
    """The outcome of the calls: a response, or the last call's error."""

    count: int
    """Number of calls, including the last one."""
    duration_ms: float | None
    """Wall time of the last call; None without a call."""
    response: ProviderResponse | None = None
    error: ProviderError | None = None
    requests: JsonObject = field(default_factory=dict)
    """The provider's data on its API requests and its log, under the keys of results."""
    lost: tuple[ProviderResponse, ...] = ()
    """What earlier calls reported that timed out, or that were given up with their batch: they were paid for."""


async def invoke_with_retries(
    provider: Adapter, request: ProviderRequest, max_retries: int, called: str = "target"
) -> Attempts:
    """Call a provider, and retry a call that timed out up to `max_retries` times. Logs each call of `called`.

    Returns any failure of the provider as a value. Source: decisions 26, "Timeout with retry".
    """
    requests: JsonObject = {}
    lost: tuple[ProviderResponse, ...] = ()
    while True:
        started = time.perf_counter()
        response = error = None
        try:
            response = await invoke_within_limit(provider, request)
            raw = {} if response.cached else _checked_raw(response.raw)
        except ProviderError as failure:
            error, raw = failure, _checked_raw(failure.raw)
        if response is not None:
            with suppress(RecursionError, TypeError, ValueError):  # content that is no JSON, which its reader reports
                response = require_answer(response)
        requests = _add_requests(requests, raw)
        attempts = Attempts(request.attempt + 1, _milliseconds_since(started), response, error, requests, lost)
        _log_call(called, attempts, raw)
        if not _timed_out(attempts) or request.attempt >= max_retries:
            return _with_response(attempts)
        lost += () if response is None else (response,)
        request = request.replace(attempt=request.attempt + 1)


def _timed_out(attempts: Attempts) -> bool:
    """Whether the last call timed out. It has a response as well if it reported what it cost until then."""
    response = attempts.response
    if attempts.error is not None:
        return attempts.error.kind == "timeout"
    return response is not None and response.error is not None and response.error_kind == "timeout"


def _with_response(attempts: Attempts) -> Attempts:
    """Return the attempts with the last error as a response, if earlier calls were paid for: these have a record."""
    error = attempts.error
    if error is None or not attempts.lost:
        return attempts
    return attempts.replace(response=ProviderResponse(error=str(error), error_kind=error.kind), error=None)


async def invoke_within_limit(provider: Adapter, request: ProviderRequest) -> ProviderResponse:
    """Call a provider once. Raises `ProviderError` for every error, because a plugin's provider may raise any."""
    limit = None if request.timeout_seconds is None else request.timeout_seconds + _GRACE_SECONDS
    if getattr(provider, "keeps_limits", False):
        limit = None  # the call may wait for others first
    attempt = attempt_here if getattr(provider, "needs_no_task", False) else attempt_async
    started = time.monotonic()
    try:
        async with asyncio.timeout(limit):
            outcome = await attempt(lambda: provider.invoke(request))
    except TimeoutError:
        raise _timeout_error(request) from None
    if limit is not None and time.monotonic() - started > limit:  # the call blocked the loop, and the timeout with it
        raise _timeout_error(request)
    error = outcome.error
    if error is None:
        return outcome.get()
    if isinstance(error, ProviderError):
        raise error if str(error).strip() else ProviderError(told(error), error.kind, error.raw)
    is_timeout = all(isinstance(leaf, TimeoutError) for leaf in leaves(error))
    raise ProviderError(describe_error(error), "timeout" if is_timeout else "crash") from error


def _timeout_error(request: ProviderRequest) -> ProviderError:
    return ProviderError(f"no answer within {request.timeout_seconds or 0:g} s", "timeout")


def _log_call(called: str, attempts: Attempts, raw: JsonObject) -> None:
    if not _LOGGER.isEnabledFor(logging.DEBUG):
        return
    response, error = attempts.response, attempts.error
    if fault := error or (response and response.error):
        outcome = f"failed: {fault}"
    elif response is not None and response.cached:
        outcome = "answered from the cache"
    elif raw.get("request_attempts", 1) > 1:
        outcome = f"answered at request {raw['request_attempts']}; before: {raw.get('last_error')}"
    else:
        outcome = "answered"
    _LOGGER.debug("%s", masked(f"{called}: call {attempts.count}, {attempts.duration_ms:g} ms: {outcome}"))


def _checked_raw(raw: JsonObject) -> JsonObject:
    """Return the data on API requests and the log, without values of wrong types, which users' code may put there."""
    figures = {name: raw[name] for name in _FIGURES if is_amount(raw.get(name))}
    return {**figures, **{name: raw[name] for name in ("last_error", "log_file") if isinstance(raw.get(name), str)}}


def _add_requests(before: JsonObject, raw: JsonObject) -> JsonObject:
    sums = {name: before.get(name, 0) + raw[name] for name in _FIGURES if name in raw}
    return {**before, **raw, **sums}


def timed(response: ProviderResponse, started: float) -> ProviderResponse:
    """Return a response with the time that the call took, if it does not tell. `started` is of `time.perf_counter`."""
    return response.replace(duration_ms=_milliseconds_since(started)) if response.duration_ms is None else response


def _milliseconds_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000)
