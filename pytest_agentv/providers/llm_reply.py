"""What litellm hands back, read into a response: the answer's text, its tokens and its cost."""

import math
from typing import Any, Final

from pytest_agentv.models.finish_reasons import incomplete_reason, is_cut
from pytest_agentv.models.messages import Message
from pytest_agentv.models.traces import TokenUsage
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.runtime.retry import RequestError, RequestFailure

_SHOWN: Final = 400
"""Characters of a refusal that a message shows."""


def read_reply(reply: Any, duration_ms: float, model: str, max_output_tokens: int | None = None) -> ProviderResponse:
    """Read litellm's `ModelResponse`. A reply whose content is missing or blank has an `error` that says why.

    Args:
        reply: The `ModelResponse`.
        duration_ms: How long the request took.
        model: What messages call the model.
        max_output_tokens: The limit that the target sets, for messages.

    Raises `RequestError` when the reply has no message at all.
    """
    choices = getattr(reply, "choices", None)
    if not choices:
        raise RequestError(RequestFailure(f"{model} replied without any choice", "crash"))
    text = choices[0].message.content
    text = text if isinstance(text, str) else ""
    response = ProviderResponse(
        output_messages=(Message("assistant", text),),
        token_usage=read_usage(getattr(reply, "usage", None)),
        cost_usd=read_cost(reply),
        duration_ms=duration_ms,
        finish_reason=read_finish_reason(choices[0]),
        raw={"model": reply.model},
    )
    if text.strip():
        return response
    error = f"{model}: {_why_blank(reply, response.finish_reason, max_output_tokens)}"
    return response.replace(error=error, error_kind="no_answer")


def read_finish_reason(choice: Any) -> str | None:
    """Return why the model stopped, in the words of its API where litellm keeps them beside its own."""
    native = (getattr(choice, "provider_specific_fields", None) or {}).get("native_finish_reason")
    reason = native or choice.finish_reason
    return reason if isinstance(reason, str) else None


def _why_blank(reply: Any, finish_reason: str | None, max_output_tokens: int | None) -> str:
    message = reply.choices[0].message
    tools = [call.function.name or "?" for call in getattr(message, "tool_calls", None) or ()]
    refusal = _refusal(message)
    if is_cut(finish_reason):
        limit = f"max_output_tokens={max_output_tokens}" if max_output_tokens else "the model's token limit"
        text = f"the answer was cut at {limit}{_reasoning_share(reply)}"
    elif refusal:
        text = f"the model refused: {refusal}"
    elif tools:
        text = f"the model called tools instead of answering: {', '.join(tools)}"
    elif reason := incomplete_reason(finish_reason):
        text = f"there is no answer: {reason}"
    else:
        text = "the model's answer is empty"
    return f"{text} (finish_reason={finish_reason})"


def _refusal(message: Any) -> str | None:
    """Return the words of a refusal, which OpenAI sends in place of the content."""
    beside = getattr(message, "provider_specific_fields", None) or {}
    refusal = getattr(message, "refusal", None) or beside.get("refusal")
    return " ".join(refusal.split())[:_SHOWN] if isinstance(refusal, str) else None


def _reasoning_share(reply: Any) -> str:
    usage: Any = getattr(reply, "usage", None)
    reasoning = getattr(getattr(usage, "completion_tokens_details", None), "reasoning_tokens", None)
    if not reasoning:
        return ""
    return f"; {reasoning} of {usage.completion_tokens} output tokens were reasoning"


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
