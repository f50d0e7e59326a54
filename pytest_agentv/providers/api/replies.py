"""What a model is told, what its reply means, and what it costs."""

import functools
import re
import sys
import warnings
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pytest_agentv.cases.prompts import ChatMessage, guidelines_section
from pytest_agentv.errors import ErrorKind
from pytest_agentv.model.base import is_amount, is_number, trim
from pytest_agentv.model.messages import Message, TokenUsage, incomplete_reason, is_broken, is_cut
from pytest_agentv.providers.api.base import Billing, ModelReply
from pytest_agentv.providers.api.client import shorten
from pytest_agentv.providers.api.model import Model
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse

# Prices answers by the tables of genai-prices, else of litellm if it is loaded.

_USUAL: Final = Billing()
_OPEN_WEIGHTS: Final = re.compile(r"(openai/)?gpt-oss")
"""Models that OpenAI gives away. Their price depends on the server, which may be the user's own machine."""

_FEE_PER_ANSWER: Final = re.compile(r"-search-(preview|api)\b")
"""Models of OpenAI that search before each answer, for a fee that no table has."""


class Price(NamedTuple):
    """The cost of an answer, with its source."""

    usd: float
    source: str
    """`genai-prices` or `litellm`."""


@functools.cache
def load_tables() -> Any:
    """Return genai-prices with its tables loaded; None without it. Takes up to half a second: call it in a thread."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the user's run must not show warnings of another package's import
            import genai_prices  # noqa: PLC0415 - only for runs with models
        usage = genai_prices.Usage(input_tokens=1, output_tokens=1)
        genai_prices.calc_price(usage, "gpt-4o", provider_id="openai")  # the first price takes 30 ms for any model
    except Exception:  # noqa: BLE001 - a missing price must not lose a paid answer
        return None
    return genai_prices


def price(model: str, provider: str, usage: TokenUsage | None, billing: Billing = _USUAL) -> Price | None:
    """Return the price of an answer; None if the price or the tokens are unknown.

    Args:
        model: The model, as its API names it.
        provider: `openai`, `azure`, `anthropic` or `google`.
        usage: The answer's tokens; `input` without cached ones.
        billing: Other facts that affect the price.

    The first call imports genai-prices, unless `load_tables` has been called: call it in a thread.
    """
    if usage is None or billing.is_unknown or _FEE_PER_ANSWER.search(model):
        return None
    if provider == "openai" and _OPEN_WEIGHTS.match(model):
        return None
    for source, look_up in (("genai-prices", _by_genai_prices), ("litellm", _by_litellm)):
        if (usd := look_up(model, provider, usage, billing)) is not None:
            return Price(usd, source)
    return None


def _by_genai_prices(model: str, provider: str, usage: TokenUsage, billing: Billing) -> float | None:
    try:
        genai_prices = load_tables()

        def total(counts: Mapping[str, int], **terms: Any) -> Any:
            asked = genai_prices.Usage(**counts)
            return genai_prices.calc_price(asked, model, provider_id=provider, **terms).total_price

        found = total(counts := _counts(usage, billing))
        # The tables ignore unknown terms. An unchanged sum would be the price of another service.
        terms = {"price_context": dict(billing.context)} if billing.context else {}
        if terms and found == (found := total(counts, **terms)):
            return None
        for name, searches in (("web_searches", billing.web_searches), ("storage_searches", billing.file_searches)):
            counts = {**counts, name: searches} if searches else counts
            if searches and found == (found := total(counts, **terms)):
                return None
    except Exception:  # noqa: BLE001 - a missing price must not lose a paid answer
        return None
    return float(found) or None


def _counts(usage: TokenUsage, billing: Billing) -> dict[str, int]:
    """Return the tokens in the terms of genai-prices, which includes cached ones in the input."""
    cached = int(usage.cached or 0)
    counts = {
        "input_tokens": int(usage.input) + cached,
        "cache_read_tokens": cached,
        "output_tokens": int(usage.output),
    }
    written = {"cache_write_tokens": billing.written, "cache_write_1h_tokens": billing.written_for_hour}
    return {**counts, **{name: tokens for name, tokens in written.items() if tokens}}


def _by_litellm(model: str, provider: str, usage: TokenUsage, billing: Billing) -> float | None:
    if billing != _USUAL:
        return None
    litellm = sys.modules.get("litellm")
    table: dict[str, Any] = getattr(litellm, "model_cost", {})
    prefix = "gemini" if provider == "google" else provider
    entry = table.get(f"{prefix}/{model}") or table.get(model) or {}
    per_input, per_output = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if not (is_number(per_input) and is_number(per_output)):
        return None
    per_cached = entry.get("cache_read_input_token_cost") or per_input
    return float(usage.input * per_input + (usage.cached or 0) * per_cached + usage.output * per_output) or None


def read_cost(reply: Any) -> float | None:
    """Return the US dollars by litellm's price map. Without a price for the model, it returns None or 0."""
    cost = getattr(reply, "_hidden_params", {}).get("response_cost")
    return float(cost) if is_amount(cost) and cost > 0 else None


# Turns a request into messages, and a model's reply into a response.


def build_response(reply: ModelReply, model: str, settings: Model) -> ProviderResponse:
    """Return the response for a reply. If the text is missing or blank, the response has an `error` with the reason.

    A model with tools may answer with calls of functions alone.
    """
    response = ProviderResponse(
        output_messages=(Message("assistant", reply.text, reply.tools),),
        token_usage=reply.usage,
        finish_reason=reply.finish_reason,
        raw={"model": reply.model},
    )
    reason = incomplete_reason(reply.finish_reason)
    if reply.text.strip() or (settings.tools and len(reply.tools) > reply.ran and reason is None):
        return response
    if is_cut(reply.finish_reason):
        limit = settings.max_output_tokens
        why = "the answer was cut at " + (f"max_output_tokens={limit}" if limit else "the model's token limit")
        if reply.usage is not None and reply.usage.reasoning:
            why += f"; {reply.usage.reasoning:g} of {reply.usage.output:g} output tokens were reasoning"
    elif reply.refusal:
        why = f"the model refused: {shorten(reply.refusal)}"
    elif reply.tools:
        why = f"the model called tools instead of answering: {', '.join(call.tool for call in reply.tools)}"
    else:
        why = f"there is no answer: {reason}" if reason else "the model's answer is empty"
    kind: ErrorKind = "network" if is_broken(reply.finish_reason) else "no_answer"
    return response.replace(error=f"{model}: {why} (finish_reason={reply.finish_reason})", error_kind=kind)


DEFAULT_SYSTEM_PROMPT: Final = (
    "You are a careful assistant: do what the instructions ask, and never invent facts or results."
)


def build_messages(request: ProviderRequest) -> list[ChatMessage]:
    """Return the messages of a request. A conversation keeps its own system message."""
    prompt = request.prompt
    system = request.system_prompt or DEFAULT_SYSTEM_PROMPT
    if prompt.chat_prompt is None:
        system = "\n\n".join(filter(None, (system, guidelines_section(prompt.guidelines))))
        return [ChatMessage("system", system), ChatMessage("user", trim(prompt.question), prompt.parts)]
    if any(message.role == "system" for message in prompt.chat_prompt):
        return list(prompt.chat_prompt)
    return [ChatMessage("system", system), *prompt.chat_prompt]
