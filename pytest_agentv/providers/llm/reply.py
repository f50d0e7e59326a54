"""Turns a model's reply into a response: the answer's text, its tokens, or the reason why there is no answer."""

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from pytest_agentv.errors import ErrorKind
from pytest_agentv.models.base import ABSENT, Json, Record, is_amount
from pytest_agentv.models.finish_reasons import incomplete_reason, is_broken, is_cut
from pytest_agentv.models.messages import Message, ToolCall
from pytest_agentv.models.records import record
from pytest_agentv.models.traces import UNNAMED, TokenUsage
from pytest_agentv.providers.apis.base import Billing, ModelReply, ModelSettings
from pytest_agentv.providers.apis.data import parsed
from pytest_agentv.providers.apis.failures import shorten
from pytest_agentv.providers.base import ProviderResponse


@record
class Asked(Record):
    """The outcome of one request."""

    response: ProviderResponse
    billing: Billing = field(default_factory=Billing)


def build_response(reply: ModelReply, model: str, settings: ModelSettings) -> ProviderResponse:
    """Return the response for a reply. If the text is missing or blank, the response has an `error` with the reason.

    Args:
        reply: The model's reply.
        model: The model's name in messages.
        settings: Their limit is for messages. A model with tools may answer with calls of functions alone.
    """
    response = ProviderResponse(
        output_messages=(Message("assistant", reply.text, reply.tools),),
        token_usage=reply.usage and reply.usage.replace(reasoning=reply.reasoning_tokens),
        finish_reason=reply.finish_reason,
        raw={"model": reply.model},
    )
    is_call = settings.tools and len(reply.tools) > reply.ran and incomplete_reason(reply.finish_reason) is None
    if reply.text.strip() or is_call:
        return response
    why = _why_blank(reply, settings.max_output_tokens)
    kind: ErrorKind = "network" if is_broken(reply.finish_reason) else "no_answer"
    return response.replace(error=f"{model}: {why}", error_kind=kind)


def read_litellm(reply: Any) -> ModelReply | None:
    """Read litellm's `ModelResponse`; None if it has no message."""
    choices = getattr(reply, "choices", None)
    if not choices:
        return None
    message, usage = choices[0].message, getattr(reply, "usage", None)
    reasoning = getattr(getattr(usage, "completion_tokens_details", None), "reasoning_tokens", None)
    return ModelReply(
        message.content if isinstance(message.content, str) else "",
        reply.model,
        read_finish_reason(choices[0]),
        _refusal(message),
        tuple(_calls(message)),
        read_usage(usage),
        reasoning or None,
    )


def _calls(message: Any) -> Iterator[ToolCall]:
    """Yield the calls. A deprecated request for `functions` gets one, in an attribute of its own."""
    calls = getattr(message, "tool_calls", None) or ()
    for call in calls:
        custom = getattr(call, "custom", None)
        given = parsed(getattr(call.function, "arguments", None)) if custom is None else custom.input
        yield _call(call.function if custom is None else custom, given, getattr(call, "id", None))
    function = getattr(message, "function_call", None)
    if function is not None and not calls:
        yield _call(function, parsed(getattr(function, "arguments", None)), None)


def _call(called: Any, given: Json, call_id: str | None) -> ToolCall:
    return ToolCall(called.name or UNNAMED, ABSENT if given is None else given, id=call_id)


def read_finish_reason(choice: Any) -> str | None:
    """Return why the model stopped, in the words of its API if litellm keeps them."""
    native = (getattr(choice, "provider_specific_fields", None) or {}).get("native_finish_reason")
    reason = native or choice.finish_reason
    return reason if isinstance(reason, str) else None


def _why_blank(reply: ModelReply, max_output_tokens: int | None) -> str:
    if is_cut(reply.finish_reason):
        limit = f"max_output_tokens={max_output_tokens}" if max_output_tokens else "the model's token limit"
        text = f"the answer was cut at {limit}{_reasoning_share(reply)}"
    elif reply.refusal:
        text = f"the model refused: {shorten(reply.refusal)}"
    elif reply.tools:
        names = ", ".join(call.tool for call in reply.tools)
        text = f"the model called tools instead of answering: {names}"
    elif reason := incomplete_reason(reply.finish_reason):
        text = f"there is no answer: {reason}"
    else:
        text = "the model's answer is empty"
    return f"{text} (finish_reason={reply.finish_reason})"


def _refusal(message: Any) -> str | None:
    """Return the words of a refusal, which OpenAI sends in place of the content."""
    beside = getattr(message, "provider_specific_fields", None) or {}
    refusal = getattr(message, "refusal", None) or beside.get("refusal")
    return refusal if isinstance(refusal, str) else None


def _reasoning_share(reply: ModelReply) -> str:
    if not reply.reasoning_tokens or reply.usage is None:
        return ""
    return f"; {reply.reasoning_tokens} of {reply.usage.output:g} output tokens were reasoning"


def read_usage(usage: Any) -> TokenUsage | None:
    """Return the tokens. Every API includes cached tokens in the input; `input` does not."""
    total_in = getattr(usage, "prompt_tokens", None)
    total_out = getattr(usage, "completion_tokens", None)
    if not total_in and not total_out:
        return None
    cached = getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None) or 0
    return TokenUsage(max(0, (total_in or 0) - cached), total_out or 0, cached or None)


def read_cost(reply: Any) -> float | None:
    """Return the US dollars by litellm's price map. Without a price for the model, it returns None or 0."""
    cost = getattr(reply, "_hidden_params", {}).get("response_cost")
    return float(cost) if is_amount(cost) and cost > 0 else None
