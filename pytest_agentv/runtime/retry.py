"""Retries failed API requests with growing delays."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from pytest_agentv.errors import ErrorKind
from pytest_agentv.model.base import Json, Record
from pytest_agentv.model.cases import DEFAULT_RETRY_STATUS_CODES, RetryPolicy

T = TypeVar("T")

JITTER: Final = (0.75, 1.25)
"""Range of the random factor of each delay, so that requests that failed together do not retry together."""

_UNFIT: Final = frozenset({400, 413, 422})
"""What is sent is at fault, not the credentials, the URL or the server."""

_REFUSED: Final = frozenset({401, 403})
"""Never retried: the same credentials would be refused again."""


@dataclass(frozen=True, slots=True)
class RequestFailure(Record):
    """Why a request failed."""

    message: str
    kind: ErrorKind
    status: int | None = None
    """The HTTP status; None without a reply."""
    is_network: bool = False
    """Whether the network lost the request or its reply."""
    retry_after_ms: float | None = None
    """How long the server asks to wait."""
    should_retry: bool | None = None
    """Whether the server says that a retry may help; None: it does not say."""
    refused: str | None = None
    """The path of a parameter that the model does not take."""

    @property
    def is_of_content(self) -> bool:
        """Whether the server refused what was sent, so that a part of it may be accepted."""
        return self.status in _UNFIT


class RequestError(Exception):
    """A request failed; `failure` says why."""

    def __init__(self, failure: RequestFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(slots=True)
class RequestLog:
    """The requests of one call. It is updated during the call, so it is known even if a time limit ends the call."""

    attempts: int = 0
    waited_ms: float = 0
    """Waits between requests. They do not count in the answer's duration."""
    last_error: str | None = None
    """The error of the last failed request, also if a later request succeeded."""

    def to_raw(self) -> dict[str, Json]:
        """Return the log as entries of the `raw` data of a response or an error."""
        waited = {"waited_ms": round(self.waited_ms, 3), "last_error": self.last_error} if self.last_error else {}
        return {"request_attempts": self.attempts, **waited}


def backoff(attempt: int, policy: RetryPolicy, jitter: float = 1.0) -> float:
    """Return the milliseconds to wait after a failed attempt (0-based), never more than the policy's longest delay.

    Source: agentv-formats 4.7, "Exponential backoff with default config".
    """
    try:
        delay_ms = policy.initial_delay_ms * policy.backoff_factor**attempt
    except OverflowError:
        delay_ms = policy.max_delay_ms
    return min(policy.max_delay_ms, min(policy.max_delay_ms, delay_ms) * jitter)


def is_retryable(failure: RequestFailure, policy: RetryPolicy) -> bool:
    """Whether a retry may help: the network failed, or the policy lists the status.

    The server may say that no retry helps. It may also ask for a retry at a status that the default policy does not
    list.

    Source: agentv-formats 4.7, "Non-retryable errors", "Custom retryable status codes".
    """
    if failure.status is None:
        return failure.is_network
    if failure.status in _REFUSED or failure.should_retry is False:
        return False
    is_asked_for = failure.should_retry is True and policy.status_codes == DEFAULT_RETRY_STATUS_CODES
    return is_asked_for or failure.status in policy.status_codes


def next_delay(failure: RequestFailure, attempt: int, policy: RetryPolicy, jitter: float = 1.0) -> float | None:
    """Return the milliseconds to wait before the next request; None: do not retry.

    The delay that a server asks for is obeyed, up to the policy's longest delay (decisions 26).
    """
    if attempt >= policy.max_retries or not is_retryable(failure, policy):
        return None
    if failure.retry_after_ms:
        return min(policy.max_delay_ms, failure.retry_after_ms)
    return backoff(attempt, policy, jitter)


async def with_retries(
    request: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    log: RequestLog,
    *,
    deadline: float | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
    jitter: Callable[[], float] = lambda: random.uniform(*JITTER),  # noqa: S311 - a delay is not a secret
) -> T:
    """Make a request until it succeeds or the policy ends the retries.

    Args:
        request: Makes one request; raises `RequestError` when it fails.
        policy: When and how often to ask again.
        log: Records every attempt.
        deadline: A time of `clock`. A wait that would end after it is not started.
        sleep: Waits for some seconds.
        clock: Returns the time in seconds.
        jitter: Returns the random factor of a delay.

    Raises `RequestError` with the last failure.
    """
    while True:
        attempt = log.attempts
        log.attempts += 1
        try:
            return await request()
        except RequestError as error:
            log.last_error = error.failure.message
            delay_ms = next_delay(error.failure, attempt, policy, jitter())
            if delay_ms is None or (deadline is not None and clock() + delay_ms / 1000 >= deadline):
                raise
        started = clock()
        try:
            await sleep(delay_ms / 1000)
        finally:
            log.waited_ms += (clock() - started) * 1000
