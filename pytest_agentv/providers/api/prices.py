"""Prices answers by the tables of genai-prices, else of litellm if it is loaded."""

import functools
import re
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pytest_agentv.model.messages import TokenUsage
from pytest_agentv.providers.api.base import Billing

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
