from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum

from agent import LANGCHAIN, of, part

BEGAN = datetime(2026, 1, 2, 3, 4, 5, 600_000, timezone.utc)


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: object


def pydantic(**tokens):
    """A reply of pydantic-ai, of 3000 tokens and 5."""
    usage = of("pydantic_ai", input_tokens=3000, output_tokens=5, **tokens)
    model = {"model_name": "claude-sonnet-4-5", "provider_name": "anthropic"}
    said = part("text", content="120 euros")
    return of("pydantic_ai", kind="response", parts=[said], timestamp=BEGAN, usage=usage, **model)


def exchange(output):
    """Messages of pydantic-ai with a call that took 250 ms."""
    usage = of("pydantic_ai", input_tokens=30, output_tokens=5, cache_read_tokens=4, details={"reasoning_tokens": 2})
    reply = {"kind": "response", "usage": usage, "model_name": "gpt-4o", "provider_name": "openai", "timestamp": BEGAN}
    asked = part("tool-call", tool_name="price_of", args='{"product": "tent"}', tool_call_id="c1")
    found = {"tool_name": "price_of", "tool_call_id": "c1", "content": output}
    returned = part("tool-return", timestamp=BEGAN + timedelta(milliseconds=250), **found)
    return [
        of("pydantic_ai", kind="request", parts=[part("user-prompt", content="What does a tent cost?")]),
        of("pydantic_ai", parts=[asked], **reply),
        of("pydantic_ai", kind="request", parts=[returned]),
        of("pydantic_ai", parts=[part("text", content="120 euros")], finish_reason="stop", **reply),
    ]


def run(messages, **usage):
    usage = of("pydantic_ai", **usage)
    return of("pydantic_ai", new_messages=lambda: messages, output="120 euros", usage=usage)


def langchain(model, provider, details, out=None, **metadata):
    """A message of LangChain, of 3000 tokens and 5."""
    usage = {"input_tokens": 3000, "output_tokens": 5, "input_token_details": details, "output_token_details": out or {}}
    told = {"model_name": model, "model_provider": provider, **metadata}
    return of("langchain_core.messages", type="ai", content="120 euros", usage_metadata=usage, response_metadata=told)


def claude(**details):
    return langchain("claude-sonnet-4-5", "anthropic", details)


def waits_for(name):
    return of("agents", new_items=[], raw_responses=[], final_output=None, interruptions=[of("agents", name=name)])


RESULTS = {
    # What is written into a cache costs more; other terms than the usual ones have no known price.
    "pydantic-ai": pydantic(),
    "pydantic-ai-cache-writes": pydantic(cache_write_tokens=2000),
    "pydantic-ai-audio": pydantic(input_audio_tokens=10),
    "langchain": claude(),
    "langchain-cache-writes": claude(cache_creation=2000),
    "langchain-cache-writes-of-5-minutes": claude(cache_creation=0, ephemeral_5m_input_tokens=2000),
    "langchain-cache-writes-of-an-hour": claude(cache_creation=0, ephemeral_1h_input_tokens=2000),
    "langchain-flex": langchain(
        "gpt-5", "openai", {"flex_cache_read": 1000, "flex": 2000}, {"flex_reasoning": 3}, service_tier="flex"
    ),
    "langchain-audio": langchain("gpt-5", "openai", {"audio": 10}),
    # A run whose tokens are more than those of its replies called other agents, whose cost is not known.
    "pydantic-ai-run": run(exchange(120), input_tokens=60, output_tokens=10),
    "pydantic-ai-run-of-others": run(exchange(120), input_tokens=100, output_tokens=50),
    # A human's message with a name is one agent telling another.
    "langchain-named": [
        *LANGCHAIN[:2],
        of("langchain_core.messages", type="human", content="found it", name="researcher"),
        LANGCHAIN[-1],
    ],
    # Whatever a tool returns becomes plain data.
    "outputs": exchange({"a": (1, {2}), 3: Colour.RED, "point": Point(1, b"ab"), "nan": float("nan")}),
    "waits": waits_for("refund"),
    "own-package": of("agents", answer=5),
}


def answer(prompt, request):
    return RESULTS[request.eval_id]
