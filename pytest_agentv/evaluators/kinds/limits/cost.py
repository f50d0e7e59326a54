"""`cost`: what the answer cost."""

from pydantic import Field

from pytest_agentv.evaluators.base import Context, Evaluator
from pytest_agentv.evaluators.comparing.limits import LimitCheck, reported_metrics, score_limits, unknown_amount
from pytest_agentv.models.kind import Amount
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import format_fixed


class Cost(Evaluator):
    """The most an answer may cost."""

    kind = "cost"
    short_key = "budget"
    is_graded = False
    reads_answer = False

    budget: Amount = Field(description="US dollars")

    async def evaluate(self, context: Context) -> Score:
        return score_cost(self, reported_metrics(context).cost_usd)


def score_cost(config: Cost, cost_usd: float | None) -> Score:
    """Score a cost in US dollars."""
    if cost_usd is None:
        return unknown_amount(config, "No cost data available in trace", "Execution cost not reported by provider")
    cost, budget = f"${format_fixed(cost_usd, 4)}", f"${format_fixed(config.budget, 4)}"
    check = LimitCheck(cost_usd, config.budget, f"Cost {cost} {{}} {budget} budget")
    return score_limits([check], f"Execution cost {cost} (budget: {budget})")
