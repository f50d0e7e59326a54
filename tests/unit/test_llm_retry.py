"""How failed requests are repeated: the delays, what is worth repeating, and the loop."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.errors import ErrorKind
from pytest_agentv.model.cases import DEFAULT_RETRY_STATUS_CODES, RetryPolicy
from pytest_agentv.runtime.retry import (
    RequestError,
    RequestFailure,
    RequestLog,
    backoff,
    is_retryable,
    next_delay,
    with_retries,
)

DEFAULT = RetryPolicy()


def replied(status: int, retry_after_ms: float | None = None, kind: ErrorKind = "network") -> RequestFailure:
    return RequestFailure(f"HTTP {status}", kind, status, retry_after_ms=retry_after_ms)


NETWORK = RequestFailure("connection reset", "network", is_network=True)
MALFORMED = RequestFailure("no JSON", "crash")


@pytest.mark.scenario("Exponential backoff with default config")
@pytest.mark.scenario("Default exponential backoff")
@pytest.mark.scenario("Custom retry configuration")
@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        (DEFAULT, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]),
        (RetryPolicy(5, 2000, 120_000), [2000, 4000, 8000, 16_000, 32_000, 64_000, 120_000]),
        (RetryPolicy(5, 10, 120_000, backoff_factor=3), [10, 30, 90]),
    ],
)
def test_a_policy_sets_the_first_delay_the_factor_and_the_longest_delay(
    policy: RetryPolicy, delays: list[float]
) -> None:
    assert [backoff(attempt, policy) for attempt in range(len(delays))] == delays


@given(st.integers(0, 10_000), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0.001, 1e6), st.floats(0.75, 1.25))
def test_a_delay_is_never_negative_nor_longer_than_the_longest(
    attempt: int, first: float, longest: float, factor: float, jitter: float
) -> None:
    assert 0 <= backoff(attempt, RetryPolicy(3, first, longest, factor), jitter) <= longest


@pytest.mark.scenario("Non-retryable errors")
@pytest.mark.scenario("Custom retryable status codes")
@pytest.mark.parametrize(
    ("failure", "policy", "is_repeated"),
    [
        *((replied(status), DEFAULT, True) for status in DEFAULT_RETRY_STATUS_CODES),
        *((replied(status), DEFAULT, False) for status in (400, 401, 403, 404, 422, 501, 521)),
        *((replied(status), RetryPolicy(status_codes=(401, 403, 429)), False) for status in (401, 403)),
        *((replied(status), RetryPolicy(status_codes=(429, 503)), status != 500) for status in (429, 503, 500)),
        (NETWORK, RetryPolicy(status_codes=()), True),
        (MALFORMED, DEFAULT, False),
    ],
)
def test_what_is_worth_another_request(failure: RequestFailure, policy: RetryPolicy, is_repeated: bool) -> None:
    assert is_retryable(failure, policy) == is_repeated


@pytest.mark.scenario("Disable retries")
@pytest.mark.parametrize(
    ("failure", "attempt", "policy", "delay"),
    [
        (replied(429, retry_after_ms=7000), 0, DEFAULT, 7000),
        (replied(429, retry_after_ms=3_600_000), 0, DEFAULT, 60_000),
        (replied(429, retry_after_ms=0), 1, DEFAULT, 2500),
        (replied(500), 1, RetryPolicy(2), 2500),
        (replied(500), 2, RetryPolicy(2), None),
        (replied(429, retry_after_ms=1000), 0, RetryPolicy(max_retries=0), None),
    ],
)
def test_a_server_that_says_how_long_to_wait_is_obeyed_without_jitter(
    failure: RequestFailure, attempt: int, policy: RetryPolicy, delay: float | None
) -> None:
    assert next_delay(failure, attempt, policy, 1.25) == delay


@dataclass
class World:
    """A clock that only sleeping moves on, and a server that plays a list of failures."""

    failures: list[RequestFailure]
    now: float = 100.0
    slept: list[float] = field(default_factory=list)
    log: RequestLog = field(default_factory=RequestLog)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def request(self) -> str:
        if self.failures:
            raise RequestError(self.failures.pop(0))
        return "answer"

    def run(self, policy: RetryPolicy = DEFAULT, deadline: float | None = None, jitter: float = 1.0) -> str:
        keys = {"deadline": deadline, "sleep": self.sleep, "clock": lambda: self.now, "jitter": lambda: jitter}
        return asyncio.run(with_retries(self.request, policy, self.log, **keys))  # type: ignore[arg-type]


def test_failures_are_followed_by_growing_waits_and_kept_in_the_log() -> None:
    world = World([replied(429), NETWORK, replied(503)])

    assert world.run(jitter=0.75) == "answer"
    assert world.slept == [0.75, 1.5, 3.0]
    assert world.log.to_raw() == {"request_attempts": 4, "waited_ms": 5250, "last_error": "HTTP 503"}


@pytest.mark.scenario("Custom retry configuration")
@pytest.mark.parametrize(
    ("failures", "policy", "deadline", "slept"),
    [
        ([replied(429)] * 9, DEFAULT, None, [1, 2, 4]),
        ([replied(429)] * 9, RetryPolicy(5, 2000, 120_000), None, [2, 4, 8, 16, 32]),
        ([replied(429)], RetryPolicy(max_retries=0), None, []),
        ([replied(401, kind="auth")], DEFAULT, None, []),
        ([replied(429), replied(429, retry_after_ms=30_000)], DEFAULT, 120.0, [1]),
    ],
)
def test_the_last_failure_is_raised(
    failures: list[RequestFailure], policy: RetryPolicy, deadline: float | None, slept: list[float]
) -> None:
    world, last = World([*failures]), failures[len(slept)]

    with pytest.raises(RequestError) as caught:
        world.run(policy, deadline)

    assert caught.value.failure == last
    assert (world.log.attempts, world.slept) == (len(slept) + 1, slept)


@pytest.mark.scenario("Exponential backoff with default config")
def test_waits_are_random_so_that_requests_that_failed_together_do_not_return_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends = iter([min, max])
    monkeypatch.setattr("random.uniform", lambda *limits: next(ends)(limits))
    world = World([replied(429), replied(429)])
    asyncio.run(with_retries(world.request, DEFAULT, world.log, sleep=world.sleep, clock=lambda: world.now))
    assert world.slept == [0.75, 2.5]


def test_a_wait_that_is_cancelled_is_counted() -> None:
    world = World([replied(429)])

    async def sleep(seconds: float) -> None:
        world.now += seconds / 2
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(with_retries(world.request, DEFAULT, world.log, sleep=sleep, clock=lambda: world.now))

    assert 375 <= world.log.waited_ms <= 625
