"""What litellm hands back, read into a response: the answer's text, its tokens and its cost."""

import math
from typing import Any

from pytest_agentv.models.messages import Message
from pytest_agentv.models.traces import TokenUsage
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.runtime.retry import RequestError, RequestFailure


def read_reply(reply: Any, duration_ms: float, model: str) -> ProviderResponse:
    """Read litellm's `ModelResponse`.

    Args:
        reply: The `ModelResponse`.
        duration_ms: How long the request took.
        model: What messages call the model.

    Raises `RequestError` when the reply holds no answer, which is something else than an empty one.
    """
    choices = getattr(reply, "choices", None)
    if not choices:
        raise RequestError(RequestFailure(f"{model} replied without any choice", "crash"))
    text = choices[0].message.content
    return ProviderResponse(
        output_messages=(Message("assistant", text if isinstance(text, str) else ""),),
        token_usage=read_usage(getattr(reply, "usage", None)),
        cost_usd=read_cost(reply),
        duration_ms=duration_ms,
        raw={"model": reply.model, "finish_reason": choices[0].finish_reason},
    )


def read_usage(usage: Any) -> TokenUsage | None:
    """Return the tokens; `input` is without those that came from a cache, which every API counts in."""
    total_in = getattr(usage, "prompt_tokens", None)
    total_out = getattr(usage, "completion_tokens", None)
    if not total_in and not total_out:
        return None
    cached = getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None) or 0
    return TokenUsage(max(0, (total_in or 0) - cached), total_out or 0, cached or None)


def read_cost(reply: Any) -> float | None:
    """Return the US dollars by litellm's price map; it says None or 0 of a model that it has no price of."""
    cost = getattr(reply, "_hidden_params", {}).get("response_cost")
    return float(cost) if isinstance(cost, int | float) and 0 < cost < math.inf else None
