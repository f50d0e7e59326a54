"""`latency`, `cost` and `token_usage`: every text in full."""

import asyncio

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.evaluators.calls import Cost, Latency, TokenUsageLimit
from pytest_agentv.evaluators.context import Context
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import ExecutionMetrics, TokenUsage, TraceSummary
from pytest_agentv.model.results import Score

CASE = EvalCase("c", "d", "/e/x.eval.yaml", 1, "outcome", "q", (), ())
USAGE = TokenUsage(10, 5, 2)


@pytest.mark.parametrize(
    ("check", "amount", "found"),
    [
        (Latency(threshold=5), 5, "Duration 5ms <= 5ms threshold"),
        (Latency(threshold=100.0), 100.5, "Duration 100.5ms > 100ms threshold"),
        (Cost(budget=0.0), 0.0, "Cost $0.0000 <= $0.0000 budget"),
        (Cost(budget=0.3), 0.1 + 0.2, "Cost $0.3000 <= $0.3000 budget"),
        (Cost(budget=0.3), 0.3001, "Cost $0.3001 > $0.3000 budget"),
        (Cost(budget=0.00001), 0.0000234, "Cost $0.00002 > $0.00001 budget"),
    ],
)
def test_an_amount_at_the_edge_of_its_limit(check, amount, found):
    score = check.check(ExecutionMetrics(duration_ms=amount, cost_usd=amount))
    assert (score.value, score.hits + score.misses) == (float("<=" in found), (found,))


def test_all_token_limits_that_are_set_must_be_kept():
    score = TokenUsageLimit(max_total=5, max_input=20, max_output=5).check(ExecutionMetrics(USAGE))
    assert score == Score(
        0.0,
        hits=("Input tokens 10 <= 20", "Output tokens 5 <= 5"),
        misses=("Total tokens 17 > 5",),
        reasoning="token_usage input=10, output=5, cached=2, total=17",
    )
    assert TokenUsageLimit(max_total=17).check(ExecutionMetrics(USAGE)).hits == ("Total tokens 17 <= 17",)


@pytest.mark.scenario("Deterministic trace evaluator reads trace")
@pytest.mark.parametrize(
    "fields",
    [
        {"metrics": ExecutionMetrics(USAGE, 0.01, 1000)},
        {"trace_summary": TraceSummary(0, (), {}, 0, USAGE, 0.01, 1000)},
    ],
)
def test_metrics_are_read_from_the_context(fields):
    context = Context(CASE, Prompt("q"), "x", **fields)
    evaluators = (
        Latency(threshold=1000),
        Cost(budget=0.01),
        TokenUsageLimit(max_total=17),
    )
    assert [asyncio.run(evaluator.evaluate(context)).value for evaluator in evaluators] == [1, 1, 1]
