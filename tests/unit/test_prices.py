"""What an answer cost: what the price depends on beside tokens, and that a price nobody knows is not known."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_llm import FakeLlm, Reply

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.model.cases import Target
from pytest_agentv.model.messages import TokenUsage
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.table import KINDS as TABLE
from pytest_agentv.providers.table import create_provider

MODELS = {"openai": "gpt-5", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash"}


@pytest.fixture(scope="module")
def llm() -> Iterator[FakeLlm]:
    with FakeLlm() as server:
        yield server


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"s{abs(hash(request.node.nodeid))}"


def ask(llm: FakeLlm, name: str, kind: str, content: Any, **settings: Any) -> ProviderResponse:
    url = llm.script(name, Reply(content=content))
    base_url = f"{url}/v1" if kind == "openai" else url
    values = {"model": MODELS[kind], "api_key": Secret("sk-0123456789abcdef"), "base_url": base_url, **settings}
    target = Target("t", kind, TABLE.table[kind](**values), path=str(Path.cwd() / "targets.yaml"), line=3)
    provider = create_provider(target, {})

    async def run() -> ProviderResponse:
        try:
            return await provider.invoke(ProviderRequest(Prompt("q"), "c1"))
        finally:
            await provider.close()

    return asyncio.run(run())


def chat(usage: dict[str, Any], model: str = "gpt-5", **beside: Any) -> Any:
    counts = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100, **usage}
    message = {"role": "assistant", "content": "four"}
    return {"model": model, "choices": [{"message": message, "finish_reason": "stop"}], "usage": counts, **beside}


def anthropic(**usage: Any) -> Any:
    counts = {"input_tokens": 1000, "output_tokens": 100, **usage}
    text = [{"type": "text", "text": "four"}]
    return {"model": MODELS["anthropic"], "content": text, "stop_reason": "end_turn", "usage": counts}


def gemini(usage: dict[str, Any], **candidate: Any) -> Any:
    counts = {"promptTokenCount": 1000, "candidatesTokenCount": 100, **usage}
    said = {"content": {"parts": [{"text": "four"}]}, "finishReason": "STOP", **candidate}
    return {"candidates": [said], "usageMetadata": counts, "modelVersion": MODELS["gemini"]}


def relation(response: ProviderResponse, usual: ProviderResponse) -> float | None:
    """Return how many times the usual price a price is."""
    assert usual.cost_usd is not None
    return None if response.cost_usd is None else round(response.cost_usd / usual.cost_usd, 3)


@pytest.mark.parametrize(
    ("tier", "times"),
    [(None, 1), ("default", 1), ("auto", 1), ("flex", None), ("priority", None), ("new", None)],
)
def test_another_tier_has_no_known_price(llm: FakeLlm, name: str, tier: str | None, times: float | None) -> None:
    usual = ask(llm, name, "openai", chat({}))

    assert relation(ask(llm, name, "openai", chat({}, service_tier=tier)), usual) == times


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({"cost": 0.0123}, 0.0123),
        ({"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.2}}, 0.21),
        ({"cost": {"input_tokens_cost": 0.1, "request_cost": 0.2, "total_cost": 0.3}}, 0.3),
        ({"cost": 0.01, "is_byok": True}, None),
        ({"cost": 0}, None),
        ({"cost": -1}, None),
        ({"cost": "0.1"}, None),
        ({"cost": True}, None),
        ({"cost": None}, None),
        ({}, None),
    ],
)
def test_the_cost_that_a_gateway_tells_counts(llm: FakeLlm, name: str, usage: Any, cost: float | None) -> None:
    response = ask(llm, name, "openai", chat(usage, model="vendor/model-of-theirs"))

    assert response.cost_usd == (cost and pytest.approx(cost))
    assert response.cost_source is None


def test_tokens_of_reasoning_that_stand_in_the_total_alone_are_output(llm: FakeLlm, name: str) -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 40}}

    beside = ask(llm, name, "openai", chat({**details, "total_tokens": 1140}))
    within = ask(llm, f"{name}w", "openai", chat({**details, "total_tokens": 1100}))

    assert beside.token_usage == TokenUsage(1000, 140, reasoning=40)
    assert within.token_usage == TokenUsage(1000, 100, reasoning=40)


def test_what_is_written_into_a_cache_costs_more(llm: FakeLlm, name: str) -> None:
    usual = ask(llm, name, "anthropic", anthropic(input_tokens=2000, output_tokens=0))
    split = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 1000}
    written = {"output_tokens": 0, "cache_creation_input_tokens": 1000}

    short = ask(llm, name, "anthropic", anthropic(**written))
    long = ask(llm, name, "anthropic", anthropic(**written, cache_creation=split))

    assert short.token_usage == usual.token_usage == TokenUsage(2000, 0)
    assert (relation(short, usual), relation(long, usual)) == (1.125, None)


@pytest.mark.parametrize(("model", "extra"), [("gpt-6-sol", 1000 * 0.5e-6), ("gpt-5", 0)])
def test_what_openai_writes_into_a_cache_has_the_price_of_the_table(
    llm: FakeLlm, name: str, model: str, extra: float
) -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 1000}}

    usual, written = (ask(llm, name, "openai", chat(usage, model=model)) for usage in ({}, details))

    assert usual.cost_usd is not None
    assert written.cost_usd == pytest.approx(usual.cost_usd + extra)
    assert written.token_usage == usual.token_usage


@pytest.mark.parametrize(
    "model", ["gpt-4o-search-preview", "gpt-4o-mini-search-preview-2025-03-11", "gpt-5-search-api"]
)
def test_a_model_that_is_paid_for_each_search_has_no_known_price(llm: FakeLlm, name: str, model: str) -> None:
    assert ask(llm, name, "openai", chat({}, model=model)).cost_usd is None


@pytest.mark.parametrize(
    ("usage", "times"),
    [
        ({"service_tier": "standard", "inference_geo": "global", "speed": "standard"}, 1),
        ({"service_tier": "standard", "inference_geo": "not_available"}, 1),
        ({"service_tier": "batch"}, None),
        ({"server_tool_use": {"web_search_requests": 3}}, None),
        ({"server_tool_use": {"web_search_requests": 0}}, 1),
        ({"service_tier": "priority"}, None),
        ({"inference_geo": "us"}, None),
        ({"speed": "fast"}, None),
        ({"iterations": [{"type": "message", "input_tokens": 1000}]}, 1),
        ({"iterations": [{"type": "compaction", "input_tokens": 9000}, {"type": "message"}]}, None),
        ({"iterations": [{"type": "message"}, {"type": "advisor_message", "model": "claude-opus-4-8"}]}, None),
    ],
)
def test_other_terms_of_anthropic_have_no_known_price(llm: FakeLlm, name: str, usage: Any, times: float | None) -> None:
    assert relation(ask(llm, name, "anthropic", anthropic(**usage)), ask(llm, name, "anthropic", anthropic())) == times


@pytest.mark.parametrize(
    ("content", "is_known"),
    [
        (gemini({"trafficType": "ON_DEMAND"}), True),
        (gemini({"trafficType": "TRAFFIC_TYPE_UNSPECIFIED"}), True),
        (gemini({"trafficType": "PROVISIONED_THROUGHPUT"}), False),
        (gemini({"trafficType": "ON_DEMAND_OFFPEAK"}), False),
        (gemini({"candidatesTokensDetails": [{"modality": "TEXT", "tokenCount": 100}]}), True),
        (gemini({"candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 100}]}), False),
        (gemini({"promptTokensDetails": [{"modality": "IMAGE", "tokenCount": 100}]}), True),
        (gemini({"promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 100}]}), False),
        (gemini({}, groundingMetadata={"webSearchQueries": ["tents"]}), False),
        (gemini({}, groundingMetadata={"imageSearchQueries": ["tents"]}), False),
        (gemini({}, groundingMetadata={"retrievalQueries": ["tents"]}), False),
        (gemini({}, groundingMetadata={"groundingChunks": [{"maps": {"title": "Shop"}}]}), False),
        (gemini({}, groundingMetadata={"groundingChunks": [{"retrievedContext": {"text": "a page"}}]}), True),
        (gemini({}, content={"parts": [{"toolCall": {"toolType": "GOOGLE_MAPS"}}, {"text": "four"}]}), False),
        (gemini({}, content={"parts": [{"toolCall": {"toolType": "URL_CONTEXT"}}, {"text": "four"}]}), True),
        (gemini({}, groundingMetadata={}), True),
    ],
)
def test_what_gemini_is_paid_for_beside_texts_has_no_known_price(
    llm: FakeLlm, name: str, content: Any, is_known: bool
) -> None:
    assert (ask(llm, name, "gemini", content).cost_usd is not None) == is_known
