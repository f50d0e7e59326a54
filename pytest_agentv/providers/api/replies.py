"""Reads the replies of models' APIs, and prices them."""

import functools
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pytest_agentv.cases.prompts import ChatMessage, guidelines_section
from pytest_agentv.errors import ErrorKind
from pytest_agentv.model.base import ABSENT, Json, Record, is_amount, trim
from pytest_agentv.model.messages import UNNAMED, Message, TokenUsage, ToolCall, incomplete_reason, is_broken, is_cut
from pytest_agentv.providers.api.azure import resource_url
from pytest_agentv.providers.api.base import Billing, ModelReply, ModelSettings, parsed
from pytest_agentv.providers.api.client import shorten
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse

# Prices answers by the tables of genai-prices, else of litellm if it is loaded.

_USUAL: Final = Billing()
_OPEN_WEIGHTS: Final = re.compile(r"(openai/)?gpt-oss")
"""Models that OpenAI gives away. Their price depends on the server, which may be the user's own machine."""

_FEE_PER_ANSWER: Final = re.compile(r"-search-(preview|api)\b")
"""Models of OpenAI that search before each answer, for a fee that no table has."""


@dataclass(frozen=True, slots=True)
class Price:
    """The cost of an answer, with its source."""

    usd: float
    source: str
    """`genai-prices` or `litellm`."""


def load_tables() -> None:
    """Load the tables of genai-prices, if it is installed. Takes up to half a second: call it in a thread."""
    _by_genai_prices("gpt-4o", "openai", TokenUsage(1, 1), _USUAL)  # the first price takes 30 ms for any model


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
        genai_prices = _genai_prices()
        if genai_prices is None:
            return None

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


@functools.cache
def _genai_prices() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the user's run must not show warnings of another package's import
            import genai_prices  # noqa: PLC0415 - half a second, only for runs with models
    except Exception:  # noqa: BLE001 - as above
        return None
    return genai_prices


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
    if billing.context or billing.web_searches or billing.file_searches or billing.written_for_hour:
        return None
    if billing.written > usage.input:  # no count of the two can be trusted
        return None
    litellm = sys.modules.get("litellm")
    table: dict[str, Any] = getattr(litellm, "model_cost", {})
    prefix = "gemini" if provider == "google" else provider
    entry = table.get(f"{prefix}/{model}") or table.get(model) or {}
    per_input, per_output = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    per_written = entry.get("cache_creation_input_token_cost") if billing.written else 0
    if not isinstance(per_input, int | float) or not isinstance(per_output, int | float):
        return None
    if not isinstance(per_written, int | float):
        return None
    per_cached = entry.get("cache_read_input_token_cost") or per_input
    total = (usage.input - billing.written) * per_input + billing.written * per_written
    return float(total + (usage.cached or 0) * per_cached + usage.output * per_output) or None


# Turns a model's reply into a response, and builds the arguments of litellm's request.


@dataclass(frozen=True, slots=True)
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


def _why_blank(reply: ModelReply, max_output_tokens: int | None) -> str:
    if is_cut(reply.finish_reason):
        limit = f"max_output_tokens={max_output_tokens}" if max_output_tokens else "the model's token limit"
        text = f"the answer was cut at {limit}"
        if reply.reasoning_tokens and reply.usage is not None:
            text += f"; {reply.reasoning_tokens} of {reply.usage.output:g} output tokens were reasoning"
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


def read_litellm(reply: Any) -> ModelReply | None:
    """Read litellm's `ModelResponse`; None if it has no message."""
    choices = getattr(reply, "choices", None)
    if not choices:
        return None
    message, usage = choices[0].message, getattr(reply, "usage", None)
    reasoning = getattr(getattr(usage, "completion_tokens_details", None), "reasoning_tokens", None)
    beside = getattr(message, "provider_specific_fields", None) or {}
    refusal = getattr(message, "refusal", None) or beside.get("refusal")  # OpenAI sends it in place of the content
    return ModelReply(
        message.content if isinstance(message.content, str) else "",
        reply.model,
        read_finish_reason(choices[0]),
        refusal if isinstance(refusal, str) else None,
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


_BASE_URL_VARIABLES: Final = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "gemini": "GEMINI_API_BASE",
    "openai": "OPENAI_BASE_URL",
}
"""The variables that replace a missing `base_url`."""

Arguments: TypeAlias = dict[str, Any]
"""Keyword arguments of `acompletion`."""


def build_arguments(kind: str, settings: ModelSettings, environment: Mapping[str, str]) -> Arguments:
    """Return the arguments that all requests of a target share (agentv-formats 5.1), without those that have no value.

    Args:
        kind: `azure`, `anthropic`, `gemini`, `openai` or `litellm`.
        settings: The target's settings.
        environment: The variables with base URLs that the target does not set.
    """
    base_url = settings.base_url or environment.get(_BASE_URL_VARIABLES.get(kind, ""), "")
    prefix = "responses/" if settings.api_format == "responses" else ""  # litellm's term
    arguments: Arguments = {
        "model": settings.model if kind == "litellm" else f"{kind}/{prefix}{settings.model}",
        "api_key": settings.api_key,
        "api_base": base_url.strip().rstrip("/") or None,
        "api_version": settings.api_version,
        "temperature": settings.temperature,
        "max_tokens": settings.max_output_tokens,
        "top_p": settings.top_p,
        "seed": settings.seed,
        "stop": settings.stop and list(settings.stop),
        "reasoning_effort": settings.reasoning_effort,
        "response_format": settings.response_format,
        "tools": settings.tools and list(settings.tools),
        "organization": settings.organization,
        "extra_headers": dict(settings.headers) or None,
        "drop_params": True,  # a model that takes no temperature must still answer
        # The place that litellm prices by. Its argument `base_model` would also change the URL of Azure.
        "litellm_metadata": settings.base_model and {"model_info": {"base_model": settings.base_model}},
    }
    if kind in ("anthropic", "gemini"):  # litellm builds the body from all arguments, and would send `extra_body`
        arguments |= settings.extra_body
    else:
        arguments["extra_body"] = settings.extra_body or None
    arguments |= _adapted(kind, settings, arguments["api_base"])
    return {name: value for name, value in arguments.items() if value is not None}


def _adapted(kind: str, settings: ModelSettings, base_url: str | None) -> Arguments:
    """Return the arguments that differ for models of a kind."""
    tokens, budget = settings.max_output_tokens, settings.thinking_budget
    match kind:
        case "azure":
            endpoint = resource_url(base_url or "")
            if not settings.reasoning:
                return {"api_base": endpoint}
            return {
                "model": f"azure/o_series/{settings.model}",  # litellm's term; the name alone would not tell it
                "api_base": endpoint,
                "temperature": None,
                "max_tokens": None,
                "max_completion_tokens": tokens,
            }
        case "anthropic":
            server = base_url and re.sub(r"/v1(/messages)?$", "", base_url)  # litellm adds it
            if budget is None:
                return {"api_base": server, "max_tokens": tokens}
            return {
                "api_base": server,
                "max_tokens": tokens and tokens + budget,
                "temperature": None,  # the API refuses it beside thinking
                "thinking": {"type": "enabled", "budget_tokens": budget},
            }
        case "gemini":
            has_version = base_url is None or re.search(r"/v\d\w*$", base_url)
            return {"api_base": base_url if has_version else f"{base_url}/v1beta"}
    return {}


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
