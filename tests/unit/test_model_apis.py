"""What is read from the words, headers and vectors of models' APIs, and when a request is repeated: tables of inputs.

The folders `model-*` and `models-*` of the corpus show the rest.
"""

import json
import math

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import ChatMessage
from pytest_agentv.model.cases import RetryPolicy
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers.api.base import Embeddings, vectors_of
from pytest_agentv.providers.api.client import (
    RequestError,
    find_proxy,
    next_delay,
    parse_retry_after,
    read_error_text,
    refused_parameter,
)
from pytest_agentv.providers.api.litellm import read_failure
from pytest_agentv.providers.api.openai import OpenAi, read_data, resource_url
from pytest_agentv.providers.table import KINDS

DEFAULT = RetryPolicy()
LOST = RequestError("x", "network", is_network=True)


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        ("https://api.example.com/v1", {}, None),
        ("https://api.example.com/v1", {"https": "http://proxy:1"}, "http://proxy:1"),
        ("https://api.example.com/v1", {"https": "proxy:1"}, "http://proxy:1"),
        ("http://api.example.com/v1", {"https": "http://proxy:1"}, None),
        ("https://api.example.com/v1", {"all": "http://proxy:1"}, "http://proxy:1"),
        ("https://api.example.com/v1", {"https": "http://proxy:1", "no": "example.com"}, None),
        ("https://api.example.com/v1", {"https": "http://proxy:1", "no": "*"}, None),
        ("https://api.example.com/v1", {"https": "http://proxy:1", "no": "ample.com"}, "http://proxy:1"),
        ("http://127.0.0.1:9/v1", {"http": "http://proxy:1", "no": "localhost,127.0.0.1"}, None),
    ],
)
def test_the_proxy_of_a_url(url, environment, proxy):
    assert find_proxy(url, environment) == proxy


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ("Unrecognized request argument supplied: top_p", "top_p"),
        ("`temperature` may only be set to 1 when thinking is enabled.", "temperature"),
        ("adaptive thinking is not supported on this model", "thinking"),
        ("output_config.format: Extra inputs are not permitted", "output_config.format"),
        ("output format is not supported for this model.", "output_config.format"),
        ("Unsupported parameter: 'reasoning.effort' is not supported with this model.", "reasoning.effort"),
        ("Invalid parameter: 'text.format' of type 'x' is not supported with this model.", "text.format"),
        ("Unknown name \"topP\" at 'generation_config': Cannot find field.", "top_p"),
        ("The model does not exist. Set another temperature", None),
        ("output_config.format.schema: property 'minLength' is not supported", None),
        ("`temperature` and `top_p` cannot both be specified for this model.", None),
        ("thinking with tools is not supported: use the Responses API", None),
        ("This model does not support image inputs", None),
        ("tools are not supported by this model", None),
        ("max_tokens must be greater than thinking.budget_tokens", None),
    ],
)
def test_a_refused_parameter_is_read_from_the_words_of_an_api(said, path):
    sent = {"model": "m", "messages": [], "max_tokens": 5, "temperature": 1, "top_p": 1, "tools": []}
    group = next((each for each in ("reasoning.", "text.") if each in said), "output_config.").rstrip(".")
    sent |= {"thinking": {"type": "adaptive"}, group: {"effort": "low", "format": {}}}

    assert refused_parameter(json.dumps({"error": {"message": said, "code": 400}}), sent) == path


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
def test_the_message_is_found_in_the_shapes_of_all_apis(body, text):
    assert read_error_text(body) == text


@given(st.text() | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_any_body_gives_one_short_line_and_any_header_no_error(text):
    assert len(read_error_text(text)) <= 401
    assert "\n" not in read_error_text(text)
    assert (parse_retry_after({"retry-after": text}) or 0) >= 0


class LitellmError(Exception):
    status_code = 500


def no_json(text):
    try:
        return LookupError(json.loads(text))
    except ValueError as error:
        return error


WHERE = "Cannot connect to host h:443"
TRACED = "litellm.APIConnectionError: 'content'\nTraceback (most recent call last):\n  File x"


@pytest.mark.parametrize(
    ("error", "cause", "message", "kind"),
    [
        ("x", httpx.ReadError("Server disconnected"), "no whole reply from M: Server disconnected", "network"),
        (
            *("x", httpx.ConnectError(f"{WHERE} ssl:<ssl.SSLContext object at 0x7f> [Name not known]")),
            *(f"no whole reply from M: {WHERE} [Name not known]", "network"),
        ),
        ("x", httpx.ConnectTimeout(""), "no whole reply from M: ConnectTimeout", "network"),
        ("x", no_json(" "), "M replied with an empty body", "crash"),
        ("x", no_json('{"a": '), "M replied with what is no JSON: Expecting value (character 7)", "crash"),
        (TRACED, KeyError("content"), "no answer from M that can be read: KeyError: 'content'", "crash"),
        (TRACED, None, "no answer from M that can be read: 'content'", "crash"),
    ],
)
def test_without_a_reply_through_litellm_the_cause_is_told(error, cause, message, kind):
    raised = LitellmError(error)
    raised.__context__ = cause
    found = read_failure(raised, "M", "target 't'")
    assert (found.message, found.kind, found.is_network) == (message, kind, isinstance(cause, httpx.TransportError))


NONSENSE = ("", "soon", "-1", "nan", "1e9", "9" * 400, "Fri, 20 Nov 2026 12:00:00 GMT")


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
    ],
)
def test_seconds_and_milliseconds_are_read_and_all_else_is_passed_over(headers, milliseconds):
    assert parse_retry_after(headers) == milliseconds


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
def test_a_policy_sets_the_first_delay_the_factor_and_the_longest_delay(policy, delays):
    policy = policy.replace(max_retries=99)
    assert [next_delay(LOST, attempt, policy, 1.0) for attempt in range(len(delays))] == delays


@given(st.integers(0, 10_000), st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0.001, 1e6), st.floats(0.75, 1.25))
def test_a_delay_is_never_negative_nor_longer_than_the_longest(attempt, first, longest, factor, jitter):
    assert 0 <= (next_delay(LOST, attempt, RetryPolicy(10_001, first, longest, factor), jitter) or 0) <= longest


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
def test_a_server_that_says_how_long_to_wait_is_obeyed_without_jitter(status, retry_after_ms, attempt, policy, delay):
    failure = RequestError("x", "network", status, retry_after_ms=retry_after_ms)
    assert next_delay(failure, attempt, policy, 1.25) == delay


@pytest.mark.parametrize(
    ("base_url", "limit"),
    [
        (None, "max_completion_tokens"),
        ("https://eu.api.openai.com/v1", "max_completion_tokens"),
        ("https://api.openai.com", "max_completion_tokens"),
        ("http://localhost:11434/v1", "max_tokens"),
        ("https://gateway.example/openai.com/v1", "max_tokens"),
    ],
)
def test_openai_itself_gets_the_newer_name_of_the_limit(base_url, limit):
    api = OpenAi(model="gpt-6-luna", base_url=base_url, max_output_tokens=5, temperature=0).api({})
    body = api.request([ChatMessage("system", "s")]).body
    assert body == {"model": "gpt-6-luna", "messages": [{"role": "system", "content": "s"}], "temperature": 0, limit: 5}


@pytest.mark.parametrize(
    ("written", "endpoint"),
    [
        ("https://r.openai.azure.com/openai", "https://r.openai.azure.com"),
        ("https://r.openai.azure.com/openai/v1", "https://r.openai.azure.com"),
        ("HTTP://proxy:8080/azure", "HTTP://proxy:8080/azure"),
        ("r", "https://r.openai.azure.com"),
        ("r.cognitiveservices.azure.com", "https://r.cognitiveservices.azure.com"),
    ],
)
def test_an_azure_resource_is_named_by_url_or_host_or_name(written, endpoint):
    assert resource_url(written) == endpoint


@pytest.mark.parametrize(
    ("kind", "base_url", "url"),
    [
        ("openai", "http://h/v1", "http://h/v1/embeddings"),
        ("openai", "http://h/v1/chat/completions?team=shop", "http://h/v1/embeddings?team=shop"),
        ("gemini", "http://h/v1?team=shop", "http://h/v1/models/m:batchEmbedContents?team=shop"),
        (
            *("azure", "https://r.azure.com?api-version=2025-01-01&team=a"),
            "https://r.azure.com/openai/deployments/m/embeddings?api-version=2025-01-01&team=a",
        ),
        (
            *("azure", "https://r.azure.com/openai/v1/?team=a&api-version=preview"),
            "https://r.azure.com/openai/v1/embeddings?team=a",
        ),
    ],
)
def test_embeddings_are_asked_for_beside_the_answers(kind, base_url, url):
    api = KINDS.table[kind](model="m", api_key=Secret("k-0123456789"), base_url=base_url).api({})
    assert api.embed(["a"]).url == url


@pytest.mark.parametrize("vector", [[], [0, 0.0], [math.nan, 1.0], [math.inf, 1.0], [1e200], [True], ["1"], 5])
def test_a_vector_without_a_direction_is_none(vector):
    assert vectors_of([vector]) is None
    assert vectors_of([[1, 0.5], vector]) == ((1.0, 0.5), None)
    assert vectors_of([[1, 0.5], [0, -2]]) == ((1.0, 0.5), (0.0, -2.0))


@pytest.mark.parametrize(
    ("places", "vectors"),
    [([1, 0], ((1.0, 2.0), (1.0, 1.0))), ([0, 0], ((1.0, 1.0), (1.0, 2.0))), ([None, None], ((1.0, 1.0), (1.0, 2.0)))],
)
def test_vectors_belong_to_the_texts_that_their_numbers_say(places, vectors):
    data = [{"index": place, "embedding": [1, index + 1]} for index, place in enumerate(places)]
    assert read_data({"data": data}) == Embeddings(vectors)


@pytest.mark.parametrize(("usage", "tokens"), [({"usageMetadata": {"promptTokenCount": 7}}, 7), ({}, 0)])
def test_gemini_tells_the_tokens_of_embeddings(usage, tokens):
    api = KINDS.table["gemini"](model="gemini-embedding-2", api_key=Secret("k-0123456789")).api({})
    assert api.read_embeddings({"embeddings": [{"values": [1.0, 0.5]}], **usage}) == Embeddings(((1.0, 0.5),), tokens)
