"""What models take that judge is counted: once, for the evaluator that asked, and never for replies from the cache."""

from collections.abc import Mapping
from typing import Any

import pytest

from pytest_agentv.evaluators.context import Meter
from pytest_agentv.model.messages import JudgeMetrics, TokenUsage, added_judge_metrics
from pytest_agentv.providers.base import ProviderResponse

USAGE = TokenUsage(10, 5)
PAID = ProviderResponse(token_usage=USAGE, cost_usd=0.5)


def counted(*replies: ProviderResponse | None, calls: int = 1) -> JudgeMetrics | None:
    meter = Meter()
    for reply in replies:
        meter.add_reply(reply, calls)
    return meter.total


@pytest.mark.parametrize(
    ("replies", "calls", "found"),
    [
        ([], 1, None),
        ([PAID], 1, {"calls": 1, "token_usage": {"input": 10, "output": 5}, "cost_usd": 0.5}),
        ([PAID, PAID.replace(cached=True)], 1, {"calls": 1, "cached": 1, "cost_usd": 0.5}),
        ([PAID, None], 1, {"calls": 2, "metered": 1, "priced": 1, "cost_usd": 0.5}),
        ([PAID], 3, {"calls": 3, "metered": 1, "priced": 1, "cost_usd": 0.5}),
        ([None], 2, {"calls": 2}),
        ([PAID.replace(cost_usd=float("nan"), token_usage=TokenUsage(-1, 2))], 1, {"calls": 1}),
    ],
)
def test_what_replies_took(replies: list[ProviderResponse | None], calls: int, found: Mapping[str, Any] | None) -> None:
    total = counted(*replies, calls=calls)
    plain = None if total is None else {**total.to_plain()}
    if plain is not None and found is not None and "token_usage" not in found:
        plain.pop("token_usage", None)
    assert plain == found


def test_sums_keep_how_much_of_them_is_known() -> None:
    known, unknown, part = counted(PAID), counted(None), counted(PAID, None)
    total = added_judge_metrics([known, None, unknown, part])
    assert total == JudgeMetrics(4, token_usage=TokenUsage(20, 10), cost_usd=1.0, metered=2, priced=2)
    assert added_judge_metrics([None]) is None


@pytest.mark.parametrize("odd", [{"token_usage": {"input": 1}}, {"token_usage": "many"}, {"cost_usd": "5"}])
def test_figures_of_other_types_break_no_count(odd: Mapping[str, Any]) -> None:
    assert counted(ProviderResponse(**odd)) == JudgeMetrics(1)
