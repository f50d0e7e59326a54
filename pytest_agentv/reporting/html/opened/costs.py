"""The line with time, cost and tokens of an opened case."""

from collections.abc import Iterator

from pytest_agentv.models.base import JsonObject
from pytest_agentv.reporting.html.cases import Case
from pytest_agentv.reporting.html.texts import dollars, duration
from pytest_agentv.reporting.html.values import (
    is_cached,
    judge_calls_of,
    judge_cost_of,
    judge_tokens_known_of,
    known_answers_of,
    mapping_of,
    number_of,
    text_of,
)


def cost_line(case: Case) -> str:
    """Return the figures of a case. A figure that covers only some answers or calls says how many."""
    return " · ".join(_parts(case))


def _parts(case: Case) -> Iterator[str]:
    value = case.result.value
    cached = "answer from the cache" if is_cached(value) else ""
    tokens = _tokens(value, "execution_metrics")
    if tokens:
        tokens += _known(*known_answers_of(value, "metered"), "answers")
    yield from filter(None, (duration(case.duration_ms), _price(case), tokens, cached, _judges(value)))


def _price(case: Case) -> str:
    if case.cost is None:
        return ""
    value = case.result.value
    source = text_of(value, "cost_source")
    said = {"target": "as the target reported it", "": ""}.get(source, f"by the price table {source}")
    part = _known(*known_answers_of(value, "priced"), "answers")
    return f"{dollars(case.cost)} {said}".strip() + part


def _judges(value: JsonObject) -> str:
    cost, tokens = dollars(judge_cost_of(value)), _tokens(value, "judge_metrics")
    if cost:
        cost += _known(*judge_calls_of(value), "calls")
    if tokens:
        tokens += _known(*judge_tokens_known_of(value), "calls")
    figures = ", ".join(filter(None, (cost, tokens)))
    return f"judges: {figures}" if figures else ""


def _known(known: float, asked: float, noun: str) -> str:
    return f", known for {known:,.0f} of {asked:,.0f} {noun}" if known < asked else ""


def _tokens(value: JsonObject, key: str) -> str:
    usage = mapping_of(mapping_of(value, key), "token_usage")
    return (
        f"{number_of(usage, 'input') or 0:,.0f} tokens in, {number_of(usage, 'output') or 0:,.0f} out" if usage else ""
    )
