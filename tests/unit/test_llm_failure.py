"""How exceptions of litellm, and what servers say, become messages."""

import json
import socket
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.model.cases import RetryPolicy
from pytest_agentv.providers.api.failures import parse_retry_after, read_error_text
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


class TestReplies:
    @pytest.mark.parametrize(
        ("status", "kind"),
        [
            *((401, "auth"), (403, "auth"), (408, "timeout"), (429, "rate_limit"), (400, "config"), (404, "config")),
            *((422, "config"), (500, "network"), (503, "network"), (529, "network")),
        ],
    )
    def test_the_status_is_that_of_the_reply_and_tells_the_kind(self, status: int, kind: str) -> None:
        found = replied(status)

        assert (found.status, found.kind, found.is_network) == (status, kind, False)

    def test_the_message_quotes_the_server(self) -> None:
        body = json.dumps({"error": {"message": "slow\n down", "code": "429"}})

        assert replied(429, body).message == "model 'm' (openai) replied HTTP 429: slow down"

    def test_without_a_text_the_status_is_named(self) -> None:
        assert replied(503).message == "model 'm' (openai) replied HTTP 503: Service Unavailable"
        assert replied(529).message == "model 'm' (openai) replied HTTP 529"

    def test_what_the_targets_file_may_be_wrong_in_is_said(self) -> None:
        assert replied(401, '{"error": "no"}').message == (
            "model 'm' (openai) replied HTTP 401: no (check the api_key of target 't' (targets.yaml:3))"
        )
        assert replied(403).message == (
            "model 'm' (openai) replied HTTP 403: Forbidden "
            "(check what the api_key may use, and the model, of target 't' (targets.yaml:3))"
        )
        assert replied(404).message == (
            "model 'm' (openai) replied HTTP 404: Not Found "
            "(check the model and the URL of target 't' (targets.yaml:3))"
        )

    def test_the_wait_that_the_server_asks_for_is_kept(self) -> None:
        assert replied(429, headers={"Retry-After": "7"}).retry_after_ms == 7000

    def test_a_reply_that_was_not_read_to_its_end_keeps_its_status(self) -> None:
        response = httpx.Response(503, stream=httpx.ByteStream(b""), request=REQUEST)
        error = httpx.HTTPStatusError("", request=REQUEST, response=response)

        assert failure(LitellmError("x", 500), error).message.endswith("replied HTTP 503: Service Unavailable")


class TestNoReply:
    def test_a_broken_connection_is_a_failure_of_the_network(self) -> None:
        assert failure(LitellmError("x", 500), httpx.ReadError("Server disconnected")) == RequestFailure(
            "no whole reply from model 'm' (openai): Server disconnected", "network", is_network=True
        )

    def test_addresses_of_objects_are_no_part_of_the_message(self) -> None:
        cause = httpx.ConnectError(
            "Cannot connect to host h:443 ssl:<ssl.SSLContext object at 0x7f13be6788c0> [Name or service not known]"
        )

        assert failure(LitellmError("x", 500), cause).message == (
            "no whole reply from model 'm' (openai): Cannot connect to host h:443 [Name or service not known]"
        )

    def test_settings_of_the_connection_are_no_part_of_the_message(self) -> None:
        cause = httpx.ConnectError("Cannot connect to host h:443 ssl:default [Name or service not known]")

        assert failure(LitellmError("x", 500), cause).message == (
            "no whole reply from model 'm' (openai): Cannot connect to host h:443 [Name or service not known]"
        )

    @pytest.mark.parametrize("cause", [ConnectionResetError("reset"), socket.gaierror("no such host")])
    def test_errors_of_the_system_count_as_the_network_too(self, cause: OSError) -> None:
        assert failure(LitellmError("x", 500), cause).is_network

    def test_a_limit_of_the_connection_is_a_timeout_worth_repeating(self) -> None:
        assert failure(LitellmError("x", 408), httpx.ConnectTimeout("")) == RequestFailure(
            "model 'm' (openai) did not reply in time: ConnectTimeout", "timeout", is_network=True
        )

    def test_an_empty_body_and_malformed_json_are_told_apart(self) -> None:
        def no_json(body: str) -> RequestFailure:
            with pytest.raises(json.JSONDecodeError) as caught:
                json.loads(body)
            return failure(LitellmError("x", 422), caught.value)

        assert no_json(" ") == RequestFailure("model 'm' (openai) replied with an empty body", "crash")
        assert no_json('{"a": ') == RequestFailure(
            "model 'm' (openai) replied with what is no JSON: Expecting value (character 7)", "crash"
        )

    def test_a_reply_of_another_shape_names_the_reason(self) -> None:
        text = "litellm.APIConnectionError: 'content'\nTraceback (most recent call last):\n  File x"

        assert failure(LitellmError(text, 500), KeyError("content")) == RequestFailure(
            "no answer from model 'm' (openai) that can be read: KeyError: 'content'", "crash"
        )
        assert failure(LitellmError(text, 500)).message == (
            "no answer from model 'm' (openai) that can be read: 'content'"
        )

    @pytest.mark.parametrize(("status", "kind"), [(400, "config"), (401, "auth"), (404, "config")])
    def test_litellm_can_refuse_to_ask(self, status: int, kind: str) -> None:
        found = failure(LitellmError("litellm.BadRequestError: LLM Provider NOT provided.\n Pass model", status))

        assert (found.kind, found.message) == (
            kind,
            "model 'm' (openai) could not be asked: LLM Provider NOT provided. Pass model",
        )

    def test_a_chain_that_goes_round_ends(self) -> None:
        one, two = LitellmError("x", 500), ValueError("y")
        two.__context__ = one

        assert failure(one, two).message == "no answer from model 'm' (openai) that can be read: ValueError: y"

    def test_long_messages_are_cut(self) -> None:
        assert len(failure(LitellmError("x" * 5000, 500)).message) < 500


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

    def test_a_limit_of_a_minute_is_not(self) -> None:
        quota = {"violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}]}
        body = json.dumps({"error": {"code": 429, "details": [quota, {"retryDelay": "34.5s"}]}})

        found = replied(429, body)

        assert (found.should_retry, found.retry_after_ms) == (None, 34_500)
        assert is_retryable(found, RetryPolicy())

    def test_headers_come_before_the_body(self) -> None:
        assert replied(429, '{"retryDelay": "34s"}', {"retry-after": "7"}).retry_after_ms == 7000

    @pytest.mark.parametrize("text", ["", "s", "-3s", "1e9s", "9" * 400 + "s"])
    def test_a_delay_that_makes_no_sense_is_none(self, text: str) -> None:
        assert replied(429, json.dumps({"retryDelay": text})).retry_after_ms is None

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

    @pytest.mark.parametrize(("headers", "is_repeated"), [({}, True), ({"X-Should-Retry": "false"}, False)])
    def test_a_server_without_room_is_asked_again(self, headers: dict[str, str], is_repeated: bool) -> None:
        body = '{"type": "error", "error": {"type": "overloaded_error", "message": "m"}}'

        assert is_retryable(replied(529, body, headers), RetryPolicy()) == is_repeated


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
        assert parse_retry_after(headers, NOW) == milliseconds

    @pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-5))])
    def test_a_date_is_read(self, zone: timezone) -> None:
        then = (NOW + timedelta(seconds=90)).astimezone(zone)

        assert parse_retry_after({"retry-after": format_datetime(then)}, NOW) == 90_000

    def test_a_date_is_held_against_the_clock_of_the_server(self) -> None:
        hours_off = {"date": format_datetime(NOW), "retry-after": format_datetime(NOW + timedelta(seconds=20))}

        assert parse_retry_after(hours_off) == 20_000

    def test_a_date_of_the_past_asks_for_no_wait(self) -> None:
        assert parse_retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, NOW) == 0

    @given(st.text())
    def test_no_text_breaks_it(self, text: str) -> None:
        assert (parse_retry_after({"retry-after": text}, NOW) or 0) >= 0
