"""What becomes of failed requests: what is told, what is worth another one, and when it is made."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from types import SimpleNamespace

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.errors import ProviderError
from pytest_agentv.model.cases import DEFAULT_RETRY_STATUS_CODES, RetryPolicy
from pytest_agentv.providers.api import client
from pytest_agentv.providers.api.client import (
    RequestError,
    RequestFailure,
    is_retryable,
    next_delay,
    parse_retry_after,
    read_error_text,
    repeated,
)
from pytest_agentv.providers.api.litellm import read_failure

MODEL = "model 'm' (openai)"
NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
REQUEST = httpx.Request("POST", "http://127.0.0.1/v1")
DEFAULT = RetryPolicy()
LOST = RequestFailure("x", "network", is_network=True)
QUOTA = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
EXHAUSTED = {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [QUOTA, {"retryDelay": "34s"}]}


class LitellmError(Exception):
    def __init__(self, message: str, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code


def failure(error: BaseException, cause: BaseException | None = None) -> RequestFailure:
    error.__context__ = cause
    return read_failure(error, MODEL, "target 't' (targets.yaml:3)")


def replied(status: int, body: object = None, headers: Mapping[str, str] | None = None) -> RequestFailure:
    response = httpx.Response(status, headers=headers, text=json.dumps(body or {}), request=REQUEST)
    error = httpx.HTTPStatusError("", request=REQUEST, response=response)
    # litellm's own status is not to be trusted: it makes 500 of Anthropic's 503.
    return failure(LitellmError("litellm.APIError: …", 500), error)


def no_json(text: str) -> BaseException:
    try:
        return LookupError(json.loads(text))
    except ValueError as error:
        return error


WHERE = "Cannot connect to host h:443"
REFUSAL = LitellmError("litellm.BadRequestError: LLM Provider NOT provided.\n Pass model", 401)
TRACED = LitellmError("litellm.APIConnectionError: 'content'\nTraceback (most recent call last):\n  File x", 500)


@pytest.mark.parametrize(
    ("error", "cause", "message", "kind"),
    [
        (None, httpx.ReadError("Server disconnected"), f"no whole reply from {MODEL}: Server disconnected", "network"),
        (
            None,
            httpx.ConnectError(f"{WHERE} ssl:<ssl.SSLContext object at 0x7f> [Name not known]"),
            f"no whole reply from {MODEL}: {WHERE} [Name not known]",
            "network",
        ),
        (None, httpx.ConnectTimeout(""), f"{MODEL} did not reply in time: ConnectTimeout", "timeout"),
        (None, no_json(" "), f"{MODEL} replied with an empty body", "crash"),
        (None, no_json('{"a": '), f"{MODEL} replied with what is no JSON: Expecting value (character 7)", "crash"),
        (TRACED, KeyError("content"), f"no answer from {MODEL} that can be read: KeyError: 'content'", "crash"),
        (TRACED, None, f"no answer from {MODEL} that can be read: 'content'", "crash"),
        (REFUSAL, None, f"{MODEL} could not be asked: LLM Provider NOT provided. Pass model", "auth"),
    ],
)
def test_without_a_reply_the_cause_is_told(
    error: LitellmError | None, cause: BaseException | None, message: str, kind: str
) -> None:
    found = failure(error or LitellmError("x", 500), cause)
    assert (found.message, found.kind, found.is_network) == (message, kind, isinstance(cause, httpx.TransportError))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((401, "auth"), (403, "auth"), (408, "timeout"), (429, "rate_limit"), (400, "config"), (404, "config")),
        *((422, "config"), (500, "network"), (503, "network"), (529, "network")),
    ],
)
def test_the_status_is_that_of_the_reply_and_tells_the_kind(status: int, kind: str) -> None:
    found = replied(status)
    assert (found.status, found.kind, found.is_network) == (status, kind, False)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('{"error": {"message": "m"}}', "m"),
        ('{"error": "m"}', "m"),
        ('{"message": "m"}', "m"),
        ('{"detail": "m"}', "m"),
        ('[{"error": {"message": "m"}}]', "m"),
        ('{"type": "error", "error": {"type": "overloaded_error", "message": "m"}}', "m"),
        ('{"error": {"code": 5}}', '{"error": {"code": 5}}'),
        ("<html>\n<b>Bad\tGateway</b>", "<html> <b>Bad Gateway</b>"),
        ("", ""),
        ("[" * 100_000, "[" * 400 + "…"),
    ],
)
def test_the_message_is_found_in_the_shapes_of_all_apis(body: str, text: str) -> None:
    assert read_error_text(body) == text


@given(st.text() | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_any_body_gives_one_short_line_and_any_header_no_error(text: str) -> None:
    assert len(read_error_text(text)) <= 401
    assert "\n" not in read_error_text(text)
    assert (parse_retry_after({"retry-after": text}, now=NOW) or 0) >= 0


NONSENSE = ("", "soon", "-1", "nan", "1e9", "9" * 400, "Fri, 99 Nov", "Mon, 20 Nov 99999999999999 12:00:00")


@pytest.mark.parametrize(
    ("headers", "milliseconds"),
    [
        ({"retry-after": "7"}, 7000),
        ({"retry-after": " 0.5 "}, 500),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "9" * 20}, 1e23),
        ({"retry-after-ms": "250", "retry-after": "7"}, 250),
        ({}, None),
        *(({"retry-after": text}, None) for text in NONSENSE),
        *(
            ({"retry-after": format_datetime((NOW + timedelta(seconds=90)).astimezone(zone))}, 90_000)
            for zone in (UTC, timezone(timedelta(hours=-5)))
        ),
    ],
)
def test_seconds_milliseconds_and_dates_are_read_and_nonsense_is_passed_over(
    headers: dict[str, str], milliseconds: float | None
) -> None:
    assert parse_retry_after(headers, now=NOW) == milliseconds


def test_a_date_is_held_against_the_clock_of_the_server() -> None:
    hours_off = {"date": format_datetime(NOW), "retry-after": format_datetime(NOW + timedelta(seconds=20))}
    assert parse_retry_after(hours_off) == 20_000


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
    policy = policy.replace(max_retries=99)
    assert [next_delay(LOST, attempt, policy, 1.0) for attempt in range(len(delays))] == delays


@given(st.integers(0, 10_000), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0.001, 1e6), st.floats(0.75, 1.25))
def test_a_delay_is_never_negative_nor_longer_than_the_longest(
    attempt: int, first: float, longest: float, factor: float, jitter: float
) -> None:
    assert 0 <= (next_delay(LOST, attempt, RetryPolicy(10_001, first, longest, factor), jitter) or 0) <= longest


@pytest.mark.parametrize(
    ("failure", "policy", "is_repeated"),
    [
        *((replied(status), DEFAULT, True) for status in DEFAULT_RETRY_STATUS_CODES),
        *((replied(status), DEFAULT, False) for status in (400, 401, 403, 404, 422, 501, 521)),
        *((replied(status), RetryPolicy(status_codes=(401, 403, 429)), False) for status in (401, 403)),
        *((replied(status), RetryPolicy(status_codes=(429, 503)), status != 500) for status in (429, 503, 500)),
        (failure(LitellmError("x", 500), httpx.ReadError("reset")), RetryPolicy(status_codes=()), True),
        (failure(LitellmError("x", 500), no_json("{")), DEFAULT, False),
        # a quota that is used up is final
        (replied(429, {"error": {"type": "insufficient_quota", "code": "insufficient_quota"}}), DEFAULT, False),
        *(
            (replied(429, {"error": EXHAUSTED}), policy, False)
            for policy in (DEFAULT, RetryPolicy(status_codes=(429,)))
        ),
        # a server may say whether asking again helps
        (replied(501, headers={"X-Should-Retry": "true"}), DEFAULT, True),
        (replied(501, headers={"X-Should-Retry": "true"}), RetryPolicy(status_codes=(503,)), False),
        (replied(503, headers={"X-Should-Retry": "false"}), DEFAULT, False),
        (replied(503, headers={"X-Should-Retry": "perhaps"}), DEFAULT, True),
        (replied(401, headers={"X-Should-Retry": "true"}), DEFAULT, False),
    ],
)
def test_what_is_worth_another_request(failure: RequestFailure, policy: RetryPolicy, is_repeated: bool) -> None:
    assert is_retryable(failure, policy) == is_repeated


@pytest.mark.parametrize(
    ("status", "retry_after_ms", "attempt", "policy", "delay"),
    [
        (429, 7000, 0, DEFAULT, 7000),
        (429, 3_600_000, 0, DEFAULT, 60_000),
        (429, 0, 1, DEFAULT, 2500),
        (500, None, 1, RetryPolicy(2), 2500),
        (500, None, 2, RetryPolicy(2), None),
        (429, 1000, 0, RetryPolicy(max_retries=0), None),
    ],
)
def test_a_server_that_says_how_long_to_wait_is_obeyed_without_jitter(
    status: int, retry_after_ms: float | None, attempt: int, policy: RetryPolicy, delay: float | None
) -> None:
    assert (
        next_delay(RequestFailure("x", "network", status, retry_after_ms=retry_after_ms), attempt, policy, 1.25)
        == delay
    )


@pytest.mark.parametrize(
    ("waits", "limit", "slept"),
    [([None] * 9, None, [1, 2, 4]), ([None, 30_000], 20.0, [1]), ([None] * 2, None, [1, 2])],
)
def test_a_wait_that_would_end_after_the_limit_is_not_begun(
    waits: list[float | None], limit: float | None, slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is moved on by sleeping only."""
    asked, sleeps = iter(waits), list[float]()

    async def request() -> str:
        for wait in asked:
            raise RequestError(RequestFailure("HTTP 429", "rate_limit", 429, retry_after_ms=wait))
        return "answer"

    async def sleep(seconds: float) -> None:
        sleeps.append(seconds)

    monkeypatch.setattr(client, "asyncio", SimpleNamespace(sleep=sleep, timeout=asyncio.timeout))
    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=lambda: 100.0 + sum(sleeps)))
    monkeypatch.setattr(client, "JITTER", (1.0, 1.0))
    if len(waits) == len(slept):
        answer, log = asyncio.run(repeated(request, DEFAULT, MODEL, limit))
        assert (answer, log.to_raw()["waited_ms"]) == ("answer", 3000)
        assert (log.attempts, log.last_error) == (3, "HTTP 429")
    else:
        with pytest.raises(ProviderError, match="HTTP 429") as caught:
            asyncio.run(repeated(request, DEFAULT, MODEL, limit))
        assert caught.value.raw["request_attempts"] == len(slept) + 1
    assert sleeps == slept
