"""`cost`: what the answer cost."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from pytest_agentv.evaluators.kinds.limits.limit import AmountLimit
from pytest_agentv.models.kind import Amount
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import digits_apart, format_fixed
from pytest_agentv.models.traces import ExecutionMetrics, TraceSummary


class Cost(AmountLimit):
    """The most an answer may cost."""

    kind = "cost"
    short_key = "budget"
    amount_name = "cost"
    spent = "Execution cost"
    hints: ClassVar[Mapping[str, str]] = {"threshold": "did you mean 'budget'?"}

    budget: Amount = Field(description="US dollars")

    def show(self, amount: float, other: float) -> str:
        return f"${format_fixed(amount, digits_apart(amount, other, 4))}"

    def check(self, metrics: ExecutionMetrics | TraceSummary) -> Score:
        return self.check_amount(metrics.cost_usd)
