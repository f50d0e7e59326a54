"""What models take that judge is counted: once, for the evaluator that asked, and never for replies from the store."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_agentv.evaluators.context import Meter, current_meter, metering
from pytest_agentv.model.messages import Costs, TokenUsage
from pytest_agentv.providers.base import ProviderResponse

USAGE = TokenUsage(10, 5)
PAID = ProviderResponse(token_usage=USAGE, cost_usd=0.5)


def counted(*replies: ProviderResponse | None, calls: int = 1) -> Costs | None:
    meter = Meter()
    for reply in replies:
        meter.add_reply(reply, calls)
    return meter.total


ONE = Costs(1, 0.5, 1, 10, 5, 1)


@pytest.mark.parametrize(
    ("replies", "calls", "found"),
    [
        ([], 1, None),
        ([PAID], 1, ONE),
        ([PAID, PAID.replace(cached=True)], 1, ONE),
        ([PAID, None], 1, ONE.replace(calls=2)),
        ([PAID], 3, ONE.replace(calls=3)),
        ([None], 2, Costs(2)),
        ([PAID.replace(cost_usd=float("nan"), token_usage=TokenUsage(-1, 2))], 1, Costs(1)),
    ],
)
def test_what_replies_took(replies: list[ProviderResponse | None], calls: int, found: Costs | None) -> None:
    assert counted(*replies, calls=calls) == found


def test_sums_keep_how_much_of_them_is_known() -> None:
    total = Costs.added([counted(PAID), None, counted(None), counted(PAID, None)])
    assert total == Costs(4, 1.0, 2, 20, 10, 2)
    assert (Costs.added([None]).cost, Costs.added([None]).usage) == (None, None)


def test_a_task_counts_for_the_evaluator_that_started_it_unless_it_has_a_count_of_its_own() -> None:
    async def member() -> Costs | None:
        with metering() as own:
            current_meter().add_reply(PAID)
        return own.total

    async def composite() -> list[Costs | None]:
        with metering() as meter:
            members = await asyncio.gather(member(), member())
            current_meter().add_reply(PAID)
        return [meter.total, *members]

    assert [each and each.calls for each in asyncio.run(composite())] == [1, 1, 1]


@pytest.mark.parametrize("odd", [{"token_usage": {"input": 1}}, {"token_usage": "many"}, {"cost_usd": "5"}])
def test_figures_of_other_types_break_no_count(odd: Mapping[str, Any]) -> None:
    assert counted(ProviderResponse(**odd)) == Costs(1)
