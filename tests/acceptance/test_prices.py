"""What an answer cost: what the price depends on beside tokens, and that a price nobody knows is not known."""

import json

import pytest
from fake_llm import FakeLlm, Reply

MODELS = {"openai": "gpt-5", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash"}
URLS = {"openai": "{url}/v1", "anthropic": "{url}", "gemini": "{url}"}


def chat(usage=None, model="gpt-5", **beside):
    counts = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100, **(usage or {})}
    message = {"role": "assistant", "content": "four"}
    return {"model": model, "choices": [{"message": message, "finish_reason": "stop"}], "usage": counts, **beside}


def anthropic(**usage):
    counts = {"input_tokens": 1000, "output_tokens": 100, **usage}
    text = [{"type": "text", "text": "four"}]
    return {"model": MODELS["anthropic"], "content": text, "stop_reason": "end_turn", "usage": counts}


def gemini(usage=None, **candidate):
    counts = {"promptTokenCount": 1000, "candidatesTokenCount": 100, **(usage or {})}
    said = {"content": {"parts": [{"text": "four"}]}, "finishReason": "STOP", **candidate}
    return {"candidates": [said], "usageMetadata": counts, "modelVersion": MODELS["gemini"]}


CACHE = {"prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 1000}}
WRITTEN = {"output_tokens": 0, "cache_creation_input_tokens": 1000}
REASONING = {"completion_tokens_details": {"reasoning_tokens": 40}}

# A number of times that the price is that of the usual answer of the API; None: no price is known.
TIMES = [
    (chat(), 1),
    *((chat(service_tier=tier), times) for tier, times in ((None, 1), ("default", 1), ("auto", 1))),
    *((chat(service_tier=tier), None) for tier in ("flex", "priority", "scale", "new")),
    *((chat(usage), 1) for usage in (CACHE,)),
    *((chat(model=f"gpt-{name}"), None) for name in ("4o-search-preview", "4o-mini-search-preview-2025-03-11")),
    (chat(model="gpt-5-search-api"), None),
    (anthropic(), 1),
    (anthropic(service_tier="standard", inference_geo="global", speed="standard"), 1),
    (anthropic(service_tier="standard", inference_geo="not_available"), 1),
    (anthropic(service_tier="batch"), None),
    (anthropic(service_tier="priority"), None),
    (anthropic(server_tool_use={"web_search_requests": 3}), None),
    (anthropic(cache_creation={"ephemeral_1h_input_tokens": 1000}), None),
    (anthropic(inference_geo="us"), None),
    (anthropic(speed="fast"), None),
    (anthropic(iterations=[{"type": "message", "input_tokens": 1000}]), 1),
    (anthropic(iterations=[{"type": "compaction", "input_tokens": 9000}, {"type": "message"}]), None),
    (anthropic(iterations=[{"type": "message"}, {"type": "advisor_message", "model": "claude-opus-4-8"}]), None),
    (gemini(), 1),
    (gemini({"trafficType": "ON_DEMAND"}), 1),
    (gemini({"trafficType": "TRAFFIC_TYPE_UNSPECIFIED"}), 1),
    (gemini({"trafficType": "PROVISIONED_THROUGHPUT"}), None),
    (gemini({"trafficType": "ON_DEMAND_OFFPEAK"}), None),
    (gemini({"candidatesTokensDetails": [{"modality": "TEXT", "tokenCount": 100}]}), 1),
    (gemini({"candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 100}]}), None),
    (gemini({"promptTokensDetails": [{"modality": "IMAGE", "tokenCount": 100}]}), 1),
    (gemini({"promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 100}]}), None),
    (gemini(groundingMetadata={"webSearchQueries": ["tents"]}), None),
    (gemini(groundingMetadata={"imageSearchQueries": ["tents"]}), None),
    (gemini(groundingMetadata={"retrievalQueries": ["tents"]}), None),
    (gemini(groundingMetadata={"groundingChunks": [{"maps": {"title": "Shop"}}]}), None),
    (gemini(groundingMetadata={"groundingChunks": [{"retrievedContext": {"text": "a page"}}]}), 1),
    (gemini(content={"parts": [{"toolCall": {"toolType": "GOOGLE_MAPS"}}, {"text": "four"}]}), None),
    (gemini(content={"parts": [{"toolCall": {"toolType": "URL_CONTEXT"}}, {"text": "four"}]}), 1),
    (gemini(groundingMetadata={}), 1),
]
# What the gateway in front of a model says of the cost, and what counts.
GATEWAY = [
    ({"cost": 0.0123}, 0.0123),
    ({"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.2}}, None),
    ({"cost": 0.01, "is_byok": True}, None),
    *(({"cost": odd}, None) for odd in (0, -1, "0.1", True, None)),
    ({}, None),
]
PAIRS = {
    "reasoning-beside": chat({**REASONING, "total_tokens": 1140}),
    "reasoning-within": chat({**REASONING, "total_tokens": 1100}),
    "uncached": anthropic(input_tokens=2000, output_tokens=0),
    "short": anthropic(**WRITTEN),
    "sol": chat(model="gpt-6-sol"),
    "sol-written": chat(CACHE, model="gpt-6-sol"),
}


def kind_of(content):
    return "openai" if "choices" in content else "gemini" if "candidates" in content else "anthropic"


@pytest.fixture
def priced(project):
    """Return the metrics of an answer to each of these replies, which one run got."""
    replies = {f"times-{at}": content for at, (content, _) in enumerate(TIMES)} | PAIRS
    replies |= {f"gateway-{at}": chat(usage, model="vendor/model") for at, (usage, _) in enumerate(GATEWAY)}
    with FakeLlm() as server:
        url = server.script("s", *(Reply(content=content, when=f"<{name}>") for name, content in replies.items()))
        project.write(
            "targets.yaml",
            "targets:\n"
            + "".join(
                f"  - {{name: {kind}, provider: {kind}, model: {model}, api_key: sk-0123456789abcdef, "
                f"base_url: {URLS[kind].format(url=url)}}}\n"
                for kind, model in MODELS.items()
            ),
        )
        cases = "".join(
            f"  - {{id: {name}, input: <{name}>, target: {kind_of(content)}, assert: [{{equals: four}}]}}\n"
            for name, content in replies.items()
        )
        project.write("a.eval.yaml", f"cases:\n{cases}")
        run = project.run(mode=())
    assert run.outcomes == {"passed": len(replies)}, run.text
    return {name: result["execution_metrics"] for name, result in run.by_id.items()}


def test_a_price_depends_on_the_terms_of_the_call_and_is_not_known_where_these_are_not(priced):
    found = [priced[f"times-{at}"].get("cost_usd") for at in range(len(TIMES))]
    usual = {kind_of(content): cost for (content, times), cost in zip(TIMES, found, strict=True) if times == 1}
    for (content, times), cost in zip(TIMES, found, strict=True):
        ratio = None if cost is None else round(cost / usual[kind_of(content)], 3)
        assert ratio == times, json.dumps(content)
    for at, (usage, cost) in enumerate(GATEWAY):
        assert priced[f"gateway-{at}"].get("cost_usd") == (cost and pytest.approx(cost)), usage
    assert priced["reasoning-beside"]["token_usage"] == {"input": 1000, "output": 140, "reasoning": 40}
    assert priced["reasoning-within"]["token_usage"] == {"input": 1000, "output": 100, "reasoning": 40}
    assert priced["short"]["token_usage"] == priced["uncached"]["token_usage"] == {"input": 2000, "output": 0}
    ratio = priced["short"]["cost_usd"] / priced["uncached"]["cost_usd"]
    assert round(ratio, 3) == 1.125, "what is written into a cache costs more"
    assert priced["sol-written"]["cost_usd"] == pytest.approx(priced["sol"]["cost_usd"] + 1000 * 0.5e-6)
    assert priced["sol-written"]["token_usage"] == priced["sol"]["token_usage"]
