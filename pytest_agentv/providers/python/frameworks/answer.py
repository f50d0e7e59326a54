"""The facts in another package's result, and the price of its tokens."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from pytest_agentv.models.answers import candidate_answer
from pytest_agentv.models.base import Record, mapping
from pytest_agentv.models.finish_reasons import incomplete_reason
from pytest_agentv.models.messages import Message
from pytest_agentv.models.records import record
from pytest_agentv.models.traces import TokenUsage
from pytest_agentv.providers.apis.base import Billing
from pytest_agentv.providers.apis.data import count
from pytest_agentv.providers.apis.prices import price
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.python.frameworks.plain import get


@record
class Spent(Record):
    """The tokens of one reply of a model."""

    usage: TokenUsage
    model: str | None = None
    """The model, as its API names it."""
    provider: str | None = None
    """The provider in the price tables; None: the price is unknown."""
    cost_usd: float | None = None
    """US dollars, if the reply reports them."""
    billing: Billing = field(default_factory=Billing)
    """Other facts that affect the price."""


@record
class NativeAnswer(Record):
    """The facts in another package's result."""

    messages: tuple[Message, ...]
    """The messages of this answer, in order."""
    spent: tuple[Spent, ...] = ()
    """The tokens of the replies."""
    usage: TokenUsage | None = None
    """The tokens of the whole run, if there were more than those of the replies."""
    cost_usd: float | None = None
    """US dollars of the whole run, if it reports them."""
    finish_reason: str | None = None
    retrieved_context: tuple[str, ...] | None = None
    refusal: str | None = None
    """The words of a refusal in place of an answer."""
    error: str | None = None
    """Why there is no answer."""
    is_single_reply: bool = False
    """Whether it is one reply of a model. Tools may have been called before it."""


@record
class AgentOutput:
    """The return value of an agent that the plugin ran."""

    value: Any
    read: Callable[[Any], NativeAnswer | None]
    """Reads the value."""


def build_response(answer: NativeAnswer) -> ProviderResponse:
    """Return the response. Looking up prices may import a table: call it in a thread."""
    usage = answer.usage or total([spent.usage for spent in answer.spent])
    price = _price_of(answer)
    has_calls = any(message.tool_calls for message in answer.messages)
    error = answer.error
    if error is None and answer.refusal and not candidate_answer(answer.messages).strip():
        error = f"the model refused: {answer.refusal}"
    if error is None and not answer.messages:
        error = f"the result holds no answer: {_why_blank(answer)}"
    return ProviderResponse(
        output_messages=answer.messages,
        token_usage=usage,
        cost_usd=None if price is None else price.usd,
        cost_source=None if price is None else price.source,
        finish_reason=answer.finish_reason,
        retrieved_context=answer.retrieved_context,
        error=error,
        error_kind="crash" if error is None else "no_answer",
        is_text_only=answer.is_single_reply and not has_calls,
    )


def _why_blank(answer: NativeAnswer) -> str:
    if not answer.is_single_reply:
        return "nothing was said after the last message of the user"
    reason = incomplete_reason(answer.finish_reason) or "the model's reply is empty"
    return f"{reason} (finish_reason={answer.finish_reason})"


def total(usages: Sequence[TokenUsage]) -> TokenUsage | None:
    """Return the sum of some tokens; None without any."""
    if not usages:
        return None
    return TokenUsage(
        sum(usage.input for usage in usages),
        sum(usage.output for usage in usages),
        sum(usage.cached or 0 for usage in usages) or None,
        sum(usage.reasoning or 0 for usage in usages) or None,
    )


def tokens(total_in: object, total_out: object, cached: object = 0, reasoning: object = 0) -> TokenUsage | None:
    """Return tokens; None if none are reported. `total_in` includes the cached ones, the record does not."""
    read, written = count(total_in), count(total_out)
    if not read and not written:
        return None
    return TokenUsage(max(0, read - count(cached)), written, count(cached) or None, count(reasoning) or None)


def part_count(value: object, *path: str) -> int:
    """Return a number of tokens in a nested part; 0 if there is none."""
    for name in path:
        value = get(value, name)
    return count(value)


def part_counts(value: object, part: str, prefix: str) -> Counter[str]:
    """Return the numbers of tokens in a part, by their names without a prefix; 0 for other names."""
    found = mapping(get(value, part))
    return Counter({name.removeprefix(prefix): count(number) for name, number in found.items()})


@record
class _Price:
    usd: float
    source: str | None
    """The price tables; None: the framework reported the cost."""


def _price_of(answer: NativeAnswer) -> _Price | None:
    """Return the US dollars; None if the price of a reply is unknown, or some replies are."""
    if answer.cost_usd is not None:
        return _Price(answer.cost_usd, None)
    if not answer.spent or answer.usage not in (None, total([spent.usage for spent in answer.spent])):
        return None
    prices = [_price_of_reply(spent) for spent in answer.spent]
    known = [price for price in prices if price is not None]
    if len(known) < len(prices):
        return None
    return _Price(sum(price.usd for price in known), ", ".join(sorted({p.source for p in known if p.source})) or None)


def _price_of_reply(spent: Spent) -> _Price | None:
    if spent.cost_usd is not None:
        return _Price(spent.cost_usd, None)
    if spent.model is None or spent.provider is None:
        return None
    found = price(spent.model, spent.provider, spent.usage, spent.billing)
    return None if found is None else _Price(found.usd, found.source)
