"""Repeats the requests of a target by its retry policy, and describes the outcome."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.masking.pieces import mask_pieces
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.targets import RetryPolicy
from pytest_agentv.models.text import counted, format_number
from pytest_agentv.runtime.retry import RequestError, RequestLog, is_retryable, with_retries

T = TypeVar("T")


class ContentError(ProviderError):
    """A server refused what was sent. It may accept a part of it."""


class Repeater:
    """Makes the requests of one target."""

    def __init__(
        self,
        policy: RetryPolicy,
        asked: str,
        secrets: Iterable[str],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Take the policy, the name of the model or service, the values to hide in messages, and a `sleep` function."""
        self._policy = policy
        self._asked = asked
        self._secrets = frozenset(secrets)
        self._masker = Masker(self._secrets)
        self._sleep = sleep

    async def ask(self, ask: Callable[[], Awaitable[T]], limit: float | None) -> tuple[T, RequestLog]:
        """Ask, with repetitions by the policy. The limit, in seconds, covers all requests.

        Raises `ProviderError`. Its `raw` holds `request_attempts`, `waited_ms` and `last_error`. It is a `ContentError`
        if the server refused what was sent.
        """
        log = RequestLog()
        try:
            async with asyncio.timeout(limit):
                found = await with_retries(
                    lambda: self._ask(ask),
                    self._policy,
                    log,
                    deadline=None if limit is None else time.monotonic() + limit,
                    sleep=self._sleep,
                )
        except RequestError as error:
            message = error.failure.message + self._describe_attempts(error, log)
            of_kind = ContentError if error.failure.is_of_content else ProviderError
            raise of_kind(message, error.failure.kind, log.to_raw()) from None
        except TimeoutError:
            raise ProviderError(self._describe_timeout(limit, log), "timeout", log.to_raw()) from None
        return found, log

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            return await ask()
        except RequestError as error:  # a server may repeat the key in its message
            failure = error.failure
            message = mask_pieces(self._masker.mask(failure.message), self._secrets)
            raise RequestError(failure.replace(message=message)) from None

    def _describe_attempts(self, error: RequestError, log: RequestLog) -> str:
        if is_retryable(error.failure, self._policy) and log.attempts <= self._policy.max_retries:
            return f"; no time is left for another request ({_requests(log)})"
        return f" ({_requests(log)})" if log.attempts > 1 else ""

    def _describe_timeout(self, limit: float | None, log: RequestLog) -> str:
        before = f" ({_requests(log)}; before: {log.last_error})" if log.last_error else ""
        return f"no answer from {self._asked} within {format_number(limit or 0)} s{before}"


def _requests(log: RequestLog) -> str:
    return f"{counted(log.attempts, 'request')}, {log.waited_ms / 1000:.1f} s of waiting"
