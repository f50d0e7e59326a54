"""`latency`, `cost` and `token_usage`: every text in full."""

import asyncio

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.limits import Cost, Latency, TokenUsageLimit
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import ExecutionMetrics, TokenUsage, TraceSummary
from pytest_agentv.model.results import Score

CASE = EvalCase("c", "d", "/e/x.eval.yaml", 1, "outcome", "q", (), ())
USAGE = TokenUsage(10, 5, 2)


def test_an_answer_within_the_time_scores_1():
    score = Latency(threshold=2000).check_amount(1234)
    hits = ("Duration 1234ms <= 2000ms threshold",)
    assert score == Score(1.0, hits=hits, reasoning="Execution took 1234ms (threshold: 2000ms)")


def test_a_slow_answer_scores_0():
    score = Latency(threshold=100.0).check_amount(100.5)
    misses = ("Duration 100.5ms > 100ms threshold",)
    assert score == Score(0.0, misses=misses, reasoning="Execution took 100.5ms (threshold: 100ms)")


def test_an_unknown_duration_scores_0():
    score = Latency(threshold=100).check_amount(None)
    misses = ("No duration data available in trace",)
    unknown = "Execution duration not reported by provider"
    assert score == Score(0.0, misses=misses, reasoning=unknown, unknown=unknown)


def test_a_cost_that_adds_up_to_the_budget_is_within_it():
    assert Cost(budget=0.3).check_amount(0.1 + 0.2).value == 1.0
    assert Cost(budget=0.3).check_amount(0.3001).value == 0.0


def test_an_answer_within_the_budget_scores_1():
    score = Cost(budget=0.1).check_amount(0.05)
    hits = ("Cost $0.0500 <= $0.1000 budget",)
    assert score == Score(1.0, hits=hits, reasoning="Execution cost $0.0500 (budget: $0.1000)")


def test_an_expensive_answer_scores_0():
    score = Cost(budget=0.1).check_amount(1.25)
    misses = ("Cost $1.2500 > $0.1000 budget",)
    assert score == Score(0.0, misses=misses, reasoning="Execution cost $1.2500 (budget: $0.1000)")


def test_a_cost_beyond_a_tiny_budget_is_shown_with_the_digits_that_tell():
    score = Cost(budget=0.00001).check_amount(0.0000234)
    misses = ("Cost $0.00002 > $0.00001 budget",)
    assert score == Score(0.0, misses=misses, reasoning="Execution cost $0.00002 (budget: $0.00001)")


def test_an_unknown_cost_scores_0():
    score = Cost(budget=0.1).check_amount(None)
    misses = ("No cost data available in trace",)
    unknown = "Execution cost not reported by provider"
    assert score == Score(0.0, misses=misses, reasoning=unknown, unknown=unknown)


def test_the_limit_itself_is_within_the_limit():
    assert Latency(threshold=5).check_amount(5).value == 1
    assert Cost(budget=0.0).check_amount(0.0).value == 1
    assert TokenUsageLimit(max_total=17).check_usage(USAGE).value == 1


def test_all_token_limits_must_be_kept():
    score = TokenUsageLimit(max_total=5, max_input=20, max_output=5).check_usage(USAGE)
    assert score == Score(
        0.0,
        hits=("Input tokens 10 <= 20", "Output tokens 5 <= 5"),
        misses=("Total tokens 17 > 5",),
        reasoning="token_usage input=10, output=5, cached=2, total=17",
    )


def test_only_the_token_limits_that_are_set_count():
    score = TokenUsageLimit(max_input=3).check_usage(TokenUsage(3, 900))
    reasoning = "token_usage input=3, output=900, cached=0, total=903"
    assert score == Score(1.0, hits=("Input tokens 3 <= 3",), reasoning=reasoning)


def test_unknown_token_usage_scores_0():
    score = TokenUsageLimit(max_total=1).check_usage(None)
    misses = ("No token usage data available in trace",)
    unknown = "Token usage not reported by provider"
    assert score == Score(0.0, misses=misses, reasoning=unknown, unknown=unknown)


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


@pytest.mark.scenario("Metrics not available")
def test_without_metrics_the_evaluators_still_judge():
    context = Context(CASE, Prompt("q"), "x")
    score = asyncio.run(Latency(threshold=1000).evaluate(context))
    assert score.misses == ("No duration data available in trace",)
