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


class TestBackoff:
    @pytest.mark.scenario("Exponential backoff with default config")
    @pytest.mark.scenario("Default exponential backoff")
    def test_delays_double_from_one_second_up_to_a_minute(self) -> None:
        assert [backoff(attempt, DEFAULT) for attempt in range(8)] == [
            *(1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000)
        ]

    @pytest.mark.scenario("Exponential backoff with default config")
    def test_delays_are_spread_by_a_quarter_and_never_exceed_the_longest_one(self) -> None:
        assert (backoff(1, DEFAULT, 0.75), backoff(1, DEFAULT, 1.25)) == (1500, 2500)
        assert (backoff(9, DEFAULT, 0.75), backoff(9, DEFAULT, 1.25)) == (45_000, 60_000)

    @pytest.mark.scenario("Custom retry configuration")
    def test_a_policy_sets_the_first_delay_the_factor_and_the_longest_delay(self) -> None:
        doubling = RetryPolicy(5, 2000, 120_000)
        tripling = RetryPolicy(5, 10, 120_000, backoff_factor=3)

        assert [backoff(attempt, doubling) for attempt in (0, 1, 5, 6)] == [2000, 4000, 64_000, 120_000]
        assert [backoff(attempt, tripling) for attempt in range(3)] == [10, 30, 90]

    @given(
        st.integers(0, 10_000),
        st.floats(0, 1e6),
        st.floats(0, 1e6),
        st.floats(0.001, 1e6),
        st.floats(0.75, 1.25),
    )
    def test_a_delay_is_never_negative_nor_longer_than_the_longest(
        self, attempt: int, first: float, longest: float, factor: float, jitter: float
    ) -> None:
        policy = RetryPolicy(3, first, longest, factor)

        assert 0 <= backoff(attempt, policy, jitter) <= longest


class TestRetryable:
    @pytest.mark.parametrize("status", DEFAULT_RETRY_STATUS_CODES)
    @pytest.mark.scenario("Default exponential backoff")
    def test_the_default_status_codes_are_worth_another_request(self, status: int) -> None:
        assert is_retryable(replied(status), DEFAULT)

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 501, 521])
    @pytest.mark.scenario("Non-retryable errors")
    def test_other_status_codes_are_not(self, status: int) -> None:
        assert not is_retryable(replied(status), DEFAULT)

    @pytest.mark.parametrize("status", [401, 403])
    @pytest.mark.scenario("Non-retryable errors")
    def test_refused_credentials_are_never_repeated_whatever_the_policy_lists(self, status: int) -> None:
        assert not is_retryable(replied(status), RetryPolicy(status_codes=(401, 403, 429)))

    @pytest.mark.scenario("Custom retryable status codes")
    def test_a_policy_lists_the_status_codes_that_are_repeated(self) -> None:
        policy = RetryPolicy(status_codes=(429, 503))

        assert [is_retryable(replied(status), policy) for status in (429, 503, 500)] == [True, True, False]

    def test_a_broken_network_is_repeated_and_a_malformed_reply_is_not(self) -> None:
        assert is_retryable(NETWORK, RetryPolicy(status_codes=()))
        assert not is_retryable(MALFORMED, DEFAULT)


class TestNextDelay:
    def test_a_server_that_says_how_long_to_wait_is_obeyed_without_jitter(self) -> None:
        assert next_delay(replied(429, retry_after_ms=7000), 0, DEFAULT, 1.25) == 7000

    def test_it_is_obeyed_up_to_the_longest_delay(self) -> None:
        assert next_delay(replied(429, retry_after_ms=3_600_000), 0, DEFAULT) == 60_000

    def test_a_server_that_asks_for_no_wait_gets_the_backoff(self) -> None:
        assert next_delay(replied(429, retry_after_ms=0), 1, DEFAULT) == 2000

    def test_there_is_none_once_the_retries_are_used_up(self) -> None:
        assert [next_delay(replied(500), attempt, RetryPolicy(2)) for attempt in range(4)] == [1000, 2000, None, None]

    @pytest.mark.scenario("Disable retries")
    def test_without_retries_there_is_none(self) -> None:
        assert next_delay(replied(429, retry_after_ms=1000), 0, RetryPolicy(max_retries=0)) is None


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
        return asyncio.run(
            with_retries(
                self.request,
                policy,
                self.log,
                deadline=deadline,
                sleep=self.sleep,
                clock=lambda: self.now,
                jitter=lambda: jitter,
            )
        )


class TestLoop:
    def test_an_answer_at_once_is_one_attempt_without_a_wait(self) -> None:
        world = World([])

        assert world.run() == "answer"
        assert world.log.to_raw() == {"request_attempts": 1}
        assert world.slept == []

    def test_failures_are_followed_by_growing_waits_and_kept_in_the_log(self) -> None:
        world = World([replied(429), NETWORK, replied(503)])

        assert world.run(jitter=0.75) == "answer"
        assert world.slept == [0.75, 1.5, 3.0]
        assert world.log.to_raw() == {"request_attempts": 4, "waited_ms": 5250, "last_error": "HTTP 503"}

    @pytest.mark.scenario("Exponential backoff with default config")
    def test_the_last_failure_is_raised_after_three_retries(self) -> None:
        world = World([replied(429)] * 9)

        with pytest.raises(RequestError) as caught:
            world.run()

        assert caught.value.failure == replied(429)
        assert str(caught.value) == "HTTP 429"
        assert (world.log.attempts, world.slept) == (4, [1, 2, 4])

    @pytest.mark.scenario("Exponential backoff with default config")
    def test_waits_are_random_so_that_requests_that_failed_together_do_not_return_together(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ends = iter([min, max])
        monkeypatch.setattr("random.uniform", lambda *limits: next(ends)(limits))
        world = World([replied(429), replied(429)])
        asyncio.run(with_retries(world.request, DEFAULT, world.log, sleep=world.sleep, clock=lambda: world.now))
        assert world.slept == [0.75, 2.5]

    @pytest.mark.scenario("Custom retry configuration")
    def test_a_policy_says_how_often(self) -> None:
        world = World([replied(429)] * 9)

        with pytest.raises(RequestError):
            world.run(RetryPolicy(5, 2000, 120_000))

        assert (world.log.attempts, world.slept) == (6, [2, 4, 8, 16, 32])

    @pytest.mark.scenario("Disable retries")
    def test_without_retries_the_first_failure_is_raised(self) -> None:
        world = World([replied(429)])

        with pytest.raises(RequestError):
            world.run(RetryPolicy(max_retries=0))

        assert (world.log.attempts, world.slept) == (1, [])

    @pytest.mark.scenario("Non-retryable errors")
    def test_a_refusal_is_raised_at_once(self) -> None:
        world = World([replied(401, kind="auth")])

        with pytest.raises(RequestError):
            world.run()

        assert world.log.attempts == 1

    def test_a_wait_that_would_outlast_the_deadline_is_not_begun(self) -> None:
        world = World([replied(429), replied(429, retry_after_ms=30_000)])

        with pytest.raises(RequestError):
            world.run(deadline=120.0)

        assert (world.log.attempts, world.slept) == (2, [1])

    def test_a_wait_that_is_cancelled_is_counted(self) -> None:
        world = World([replied(429)])

        async def sleep(seconds: float) -> None:
            world.now += seconds / 2
            raise asyncio.CancelledError

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(with_retries(world.request, DEFAULT, world.log, sleep=sleep, clock=lambda: world.now))

        assert 375 <= world.log.waited_ms <= 625

    @given(st.floats(0.75, 1.25))
    def test_jitter_moves_every_wait_within_its_range(self, jitter: float) -> None:
        world = World([replied(500), replied(500)])
        world.run(jitter=jitter)

        assert world.slept == pytest.approx([jitter, 2 * jitter])

    def test_other_exceptions_pass_through(self) -> None:
        async def request() -> str:
            raise KeyError("ours")

        with pytest.raises(KeyError):
            asyncio.run(with_retries(request, DEFAULT, RequestLog()))
