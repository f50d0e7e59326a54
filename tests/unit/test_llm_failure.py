"""How exceptions of litellm, and what servers say, become messages."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.model.cases import RetryPolicy
from pytest_agentv.providers.api.client import parse_retry_after, read_error_text
from pytest_agentv.providers.api.litellm import read_failure
from pytest_agentv.runtime.retry import RequestFailure, is_retryable

MODEL = "model 'm' (openai)"
TARGET = "target 't' (targets.yaml:3)"
NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
REQUEST = httpx.Request("POST", "http://127.0.0.1/v1")


class LitellmError(Exception):
    def __init__(self, message: str, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code


def failure(error: BaseException, cause: BaseException | None = None) -> RequestFailure:
    error.__context__ = cause
    return read_failure(error, MODEL, TARGET)


def replied(status: int, body: str = "", headers: Mapping[str, str] | None = None) -> RequestFailure:
    response = httpx.Response(status, headers=headers, text=body, request=REQUEST)
    error = httpx.HTTPStatusError("", request=REQUEST, response=response)
    # litellm's own status is not to be trusted: it makes 500 of Anthropic's 503.
    return failure(LitellmError("litellm.APIError: …", 500), error)


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


class TestWhetherToAskAgain:
    @pytest.mark.parametrize(
        "error",
        [
            {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"},
            {
                "code": 429,
                "status": "RESOURCE_EXHAUSTED",
                "details": [
                    {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
                    {"retryDelay": "34s"},
                ],
            },
        ],
    )
    def test_a_quota_that_is_used_up_is_final(self, error: object) -> None:
        found = replied(429, json.dumps({"error": error}))

        assert (found.kind, found.should_retry) == ("rate_limit", False)
        assert not is_retryable(found, RetryPolicy())
        assert not is_retryable(found, RetryPolicy(status_codes=(429,)))

    @pytest.mark.parametrize(
        ("status", "said", "policy", "is_repeated"),
        [
            (501, "true", RetryPolicy(), True),
            (501, None, RetryPolicy(), False),
            (501, "true", RetryPolicy(status_codes=(503,)), False),
            (503, "false", RetryPolicy(), False),
            (503, "perhaps", RetryPolicy(), True),
            (401, "true", RetryPolicy(), False),
        ],
    )
    def test_a_server_may_say_whether_asking_again_helps(
        self, status: int, said: str | None, policy: RetryPolicy, is_repeated: bool
    ) -> None:
        found = replied(status, "{}", {"X-Should-Retry": said} if said else {})

        assert is_retryable(found, policy) == is_repeated


class TestErrorTexts:
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
    def test_the_message_is_found_in_the_shapes_of_all_apis(self, body: str, text: str) -> None:
        assert read_error_text(body) == text

    @given(st.text() | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
    def test_any_body_gives_one_short_line(self, body: str) -> None:
        assert len(read_error_text(body)) <= 401
        assert "\n" not in read_error_text(body)


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("headers", "milliseconds"),
        [
            ({"retry-after": "7"}, 7000),
            ({"retry-after": " 0.5 "}, 500),
            ({"retry-after": "0"}, 0),
            ({"retry-after": "9" * 20}, 1e23),
            ({"retry-after-ms": "250", "retry-after": "7"}, 250),
            ({}, None),
            *[
                ({"retry-after": text}, None)
                for text in (
                    "",
                    "soon",
                    "-1",
                    "nan",
                    "1e9",
                    "9" * 400,
                    "Fri, 99 Nov",
                    "Mon, 20 Nov 99999999999999 12:00:00",
                )
            ],
        ],
    )
    def test_seconds_and_milliseconds_are_read_and_nonsense_is_passed_over(
        self, headers: dict[str, str], milliseconds: float | None
    ) -> None:
        assert parse_retry_after(headers, now=NOW) == milliseconds

    @pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-5))])
    def test_a_date_is_read(self, zone: timezone) -> None:
        then = (NOW + timedelta(seconds=90)).astimezone(zone)

        assert parse_retry_after({"retry-after": format_datetime(then)}, now=NOW) == 90_000

    def test_a_date_is_held_against_the_clock_of_the_server(self) -> None:
        hours_off = {"date": format_datetime(NOW), "retry-after": format_datetime(NOW + timedelta(seconds=20))}

        assert parse_retry_after(hours_off) == 20_000

    @given(st.text())
    def test_no_text_breaks_it(self, text: str) -> None:
        assert (parse_retry_after({"retry-after": text}, now=NOW) or 0) >= 0
