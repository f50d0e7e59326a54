"""The requests of the APIs on the wire, with litellm's as the oracle."""

import asyncio
import importlib.util
import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fake_llm import FakeLlm, Request
from pydantic import ValidationError

from pytest_agentv.cases.prompts import ChatMessage, Prompt
from pytest_agentv.model.cases import Target
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers.api.base import Embeddings, vectors_of
from pytest_agentv.providers.api.openai import OpenAi, read_data
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.providers.table import KINDS, create_provider

KEY = "sk-0123456789abcdef"
KEY_HEADERS = {
    *("authorization", "openai-organization", "api-key", "x-api-key", "x-goog-api-key", "anthropic-version"),
    "content-type",
}

# Models for which litellm leaves nothing out and translates nothing by their names.
MODELS = {"openai": "gpt-4o", "azure": "gpt-4o", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash"}
LIMITS: tuple[dict[str, Any], ...] = ({}, {"temperature": 0.0, "max_output_tokens": 4000})
CONVERSATIONS: tuple[tuple[ChatMessage, ...], ...] = (
    (ChatMessage("system", "S"), ChatMessage("user", "a"), ChatMessage("user", "ä\n\u2028🙂")),
    (ChatMessage("assistant", "b"), ChatMessage("assistant", "b2"), ChatMessage("user", "c")),
    (ChatMessage("user", "a"), ChatMessage("assistant", "b \n")),
)
SHAPE = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "strict": True, "schema": SHAPE}}
SAMPLING: dict[str, Any] = {"top_p": 0.5, "stop": ["END", "."], "seed": 7}
KEYS: tuple[tuple[str, dict[str, Any]], ...] = (
    *((kind, SAMPLING) for kind in ("openai", "azure", "gemini")),
    *((kind, {"response_format": FORMAT}) for kind in ("openai", "azure")),
    ("openai", {"stop": "END", "organization": "org-1"}),
    ("openai", {"model": "gpt-5", "reasoning_effort": "minimal"}),
    ("anthropic", {"top_p": 0.5, "stop": ["END"]}),
    ("anthropic", {"thinking_budget": 1024}),
    ("anthropic", {"thinking_budget": 2000, "max_output_tokens": 100}),
    *(("azure", {"api_version": version, "max_output_tokens": 50}) for version in ("v1", "preview", "2025-03-01")),
)
"""Keys that both know."""

COMBINATIONS = [
    *((kind, limits, chat) for kind in MODELS for limits in LIMITS for chat in (None, *CONVERSATIONS)),
    *((kind, keys, None) for kind, keys in KEYS),
]


@pytest.fixture(scope="module")
def llm() -> Iterator[FakeLlm]:
    with FakeLlm() as server:
        yield server


def ask(settings: Any, environment: dict[str, str], prompt: Prompt | None = None) -> None:
    async def run() -> None:
        provider = create_provider(Target("t", settings.kind, settings, path="/p/targets.yaml", line=3), environment)
        try:
            await provider.invoke(ProviderRequest(prompt or Prompt("hi"), "c1"))
        finally:
            await provider.close()

    asyncio.run(run())


def sent(llm: FakeLlm, name: str, kind: str, settings: dict[str, Any], chat: Any) -> Request:
    """Ask once and return what arrived."""
    base_url = llm.script(name) + ("/v1" if kind == "openai" else "")
    values = {"api_key": Secret(KEY), "base_url": base_url, "max_retries": 0, **settings}
    ask(KINDS.table[kind](**values), {}, Prompt("What is 2 + 2?", "rules", chat))
    (request,) = llm.asked(name)
    return request


def on_the_wire(request: Request) -> dict[str, Any]:
    headers = {name: value for name, value in request.headers.items() if name in KEY_HEADERS}
    return {"path": request.path, "query": request.query, "headers": headers, "body": request.body}


NUMBERS = itertools.count()


@pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")
@pytest.mark.parametrize(("kind", "limits", "chat"), COMBINATIONS)
def test_a_request_equals_that_of_litellm(llm: FakeLlm, kind: str, limits: dict[str, Any], chat: Any) -> None:
    ours = sent(llm, f"direct-{next(NUMBERS)}", kind, {"model": MODELS[kind], **limits}, chat)
    theirs = sent(llm, f"litellm-{next(NUMBERS)}", kind, {"model": MODELS[kind], "client": "litellm", **limits}, chat)

    expected = on_the_wire(theirs)
    apply_known_differences(kind, limits, expected)
    assert on_the_wire(ours) == expected


def apply_known_differences(kind: str, limits: dict[str, Any], expected: dict[str, Any]) -> None:
    """Change litellm's request where ours differs on purpose: no name of a model decides what is sent."""
    if kind == "azure" and "max_tokens" in expected["body"]:
        expected["body"]["max_completion_tokens"] = expected["body"].pop("max_tokens")
    if kind == "anthropic":
        expected["body"]["max_tokens"] = limits.get("max_output_tokens", 8192) + limits.get("thinking_budget", 0)
    if kind == "azure" and expected["path"] == "/openai/v1/chat/completions":
        # litellm sends the key as a bearer token to the newer API; the header of a key is `api-key` there too.
        expected["headers"]["api-key"] = expected["headers"].pop("authorization").removeprefix("Bearer ")


def test_gemini_gets_its_system_prompt_as_such_and_no_temperature_that_nobody_set(llm: FakeLlm) -> None:
    """litellm puts the system prompt of models that it does not know before the question, and may set a temperature."""
    body = sent(llm, f"direct-{next(NUMBERS)}", "gemini", {"model": "gemini-3-pro-preview"}, None).body

    assert body["system_instruction"]["parts"][0]["text"].startswith("You are a careful assistant")
    assert body["contents"] == [{"role": "user", "parts": [{"text": "What is 2 + 2?"}]}]
    assert "generationConfig" not in body


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
def test_openai_itself_gets_the_newer_name_of_the_limit(base_url: str | None, limit: str) -> None:
    api = OpenAi(model="gpt-6-luna", base_url=base_url, max_output_tokens=5, temperature=0).api({})

    body = api.request([ChatMessage("system", "s")]).body
    assert body == {"model": "gpt-6-luna", "messages": [{"role": "system", "content": "s"}], "temperature": 0, limit: 5}


def test_a_blank_turn_is_left_out_of_a_conversation_with_anthropic(llm: FakeLlm) -> None:
    """The API refuses blank texts; litellm writes a text of its own in their place."""
    chat = (ChatMessage("user", "a"), ChatMessage("assistant", " "), ChatMessage("user", "c"))

    body = sent(llm, f"direct-{next(NUMBERS)}", "anthropic", {"model": "claude-sonnet-4-5"}, chat).body

    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "c"}]}
    ]


@pytest.mark.parametrize("is_usual", [True, False])
def test_the_key_of_openai_goes_only_to_the_server_that_the_environment_names(llm: FakeLlm, is_usual: bool) -> None:
    name = f"keyless-{next(NUMBERS)}"
    url = f"{llm.script(name)}/v1"
    ask(OpenAi(model="gpt-4o", base_url=url), {"OPENAI_API_KEY": KEY, **({"OPENAI_BASE_URL": url} if is_usual else {})})
    assert llm.asked(name)[0].headers.get("authorization") == (f"Bearer {KEY}" if is_usual else None)


@pytest.mark.parametrize("tail", ["?team=shop&v=2", "/?team=shop&v=2"])
@pytest.mark.parametrize(
    ("kind", "model", "path"),
    [
        ("openai", "gpt-4o", "/chat/completions"),
        ("anthropic", "claude-sonnet-4-5", "/v1/messages"),
        ("gemini", "gemini-2.5-flash", "/v1beta/models/gemini-2.5-flash:generateContent"),
    ],
)
def test_the_query_of_a_base_url_stays_behind_the_path(kind: str, model: str, path: str, tail: str) -> None:
    api = KINDS.table[kind](model=model, api_key=Secret(KEY), base_url=f"http://h/x{tail}").api({})

    assert api.request([ChatMessage("user", "hi")]).url == f"http://h/x{path}?team=shop&v=2"


def test_gemini_tells_the_tokens_of_embeddings() -> None:
    api = KINDS.table["gemini"](model="gemini-embedding-2", api_key=Secret(KEY)).api({})
    vectors = {"embeddings": [{"values": [1.0, 0.5]}]}

    assert api.read_embeddings({**vectors, "usageMetadata": {"promptTokenCount": 7}}) == Embeddings(((1.0, 0.5),), 7)
    assert api.read_embeddings(vectors) == Embeddings(((1.0, 0.5),), 0)


@pytest.mark.parametrize("tail", ["", "?team=shop"])
def test_embeddings_keep_the_query_and_the_url_of_the_requests_may_be_the_base_url(tail: str) -> None:
    api = OpenAi(model="gpt-4o", base_url=f"http://h/v1/chat/completions{tail}").api({})
    gemini = KINDS.table["gemini"](model="m", api_key=Secret(KEY), base_url=f"http://h/v1{tail}").api({})

    assert api.request([ChatMessage("user", "hi")]).url == f"http://h/v1/chat/completions{tail}"
    assert api.embed(["a"]).url == f"http://h/v1/embeddings{tail}"
    assert gemini.embed(["a"]).url == f"http://h/v1/models/m:batchEmbedContents{tail}"


@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini", "litellm"])
@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("localhost:11434/v1", "starts with http:// or https://, got the text 'localhost:11434/v1'"),
        ("htp://localhost", "starts with http:// or https://, got"),
        ("http://h /v1", "with a host, and a number as port if any, got"),
        ("http://", "with a host, and a number as port if any, got"),
        ("http://h:port/v1", "with a host, and a number as port if any, got"),
        ("http://u:hunter22@h:port/v1", "with a host, and a number as port if any$"),
        ("h/v1?key=hunter22", "starts with http:// or https://$"),
    ],
)
def test_a_base_url_that_is_none_is_refused(kind: str, url: str, fault: str) -> None:
    with pytest.raises(ValidationError) as caught:
        KINDS.table[kind](model="m", base_url=url)

    assert re.search(fault, caught.value.errors()[0]["msg"])


@pytest.mark.parametrize("vector", [[], [0, 0.0], [math.nan, 1.0], [math.inf, 1.0], [1e200], [True], ["1"], 5])
def test_a_vector_without_a_direction_is_none(vector):
    assert vectors_of([vector]) is None
    assert vectors_of([[1, 0.5], vector]) == ((1.0, 0.5), None)
    assert vectors_of([[1, 0.5], [0, -2]]) == ((1.0, 0.5), (0.0, -2.0))


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([1, 0], Embeddings(((1.0, 2.0), (1.0, 1.0)))),
        ([0, 0], Embeddings(((1.0, 1.0), (1.0, 2.0)))),
        ([None, None], Embeddings(((1.0, 1.0), (1.0, 2.0)))),
    ],
)
def test_vectors_belong_to_the_texts_that_their_numbers_say(places, expected):
    data = [{"index": place, "embedding": [1, index + 1]} for index, place in enumerate(places)]
    assert read_data({"data": data}) == expected
