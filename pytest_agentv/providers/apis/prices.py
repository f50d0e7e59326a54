"""What an answer cost, by the tables of genai-prices, else of litellm where it is loaded."""

import functools
import sys
import warnings
from typing import Any

from pytest_agentv.models.records import record
from pytest_agentv.models.traces import TokenUsage


@record
class Price:
    """What an answer cost, and who says so."""

    usd: float
    source: str
    """`genai-prices` or `litellm`."""


def load_tables() -> None:
    """Load the tables of genai-prices, where it is installed. It takes up to half a second: call it in a thread."""
    _by_genai_prices("gpt-4o", "openai", TokenUsage(1, 1))  # the first price takes 30 ms, whatever is asked


def price(model: str, provider: str, usage: TokenUsage | None) -> Price | None:
    """Return the price of an answer; None where nobody knows it, or the tokens are not known.

    Args:
        model: The model, as its API names it.
        provider: `openai`, `azure`, `anthropic` or `google`.
        usage: The answer's tokens; `input` without those from a cache.

    The first call imports genai-prices, unless `load_tables` has been called: call it in a thread.
    """
    if usage is None:
        return None
    for source, look_up in (("genai-prices", _by_genai_prices), ("litellm", _by_litellm)):
        if (usd := look_up(model, provider, usage)) is not None:
            return Price(usd, source)
    return None


def _by_genai_prices(model: str, provider: str, usage: TokenUsage) -> float | None:
    cached = int(usage.cached or 0)
    try:
        genai_prices = _genai_prices()
        if genai_prices is None:
            return None
        tokens = genai_prices.Usage(
            input_tokens=int(usage.input) + cached, cache_read_tokens=cached, output_tokens=int(usage.output)
        )
        total = genai_prices.calc_price(tokens, model, provider_id=provider).total_price
    except Exception:  # noqa: BLE001 - an answer that is paid for must not be lost because its price cannot be told
        return None
    return float(total) or None


def _by_litellm(model: str, provider: str, usage: TokenUsage) -> float | None:
    litellm = sys.modules.get("litellm")
    table: dict[str, Any] = getattr(litellm, "model_cost", {})
    prefix = "gemini" if provider == "google" else provider
    entry = table.get(f"{prefix}/{model}") or table.get(model) or {}
    per_input, per_output = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if not isinstance(per_input, int | float) or not isinstance(per_output, int | float):
        return None
    per_cached = entry.get("cache_read_input_token_cost") or per_input
    total = usage.input * per_input + (usage.cached or 0) * per_cached + usage.output * per_output
    return float(total) or None


@functools.cache
def _genai_prices() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning of another package's import is none of the user's run
            import genai_prices  # noqa: PLC0415 - half a second that only runs with models pay
    except Exception:  # noqa: BLE001 - as above
        return None
    return genai_prices
