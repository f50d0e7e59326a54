"""`latency`: how long the answer took."""

from pydantic import Field

from pytest_agentv.evaluators.kinds.limits.limit import AmountLimit
from pytest_agentv.models.kind import Amount
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import format_number
from pytest_agentv.models.traces import ExecutionMetrics, TraceSummary


class Latency(AmountLimit):
    """The longest an answer may take."""

    kind = "latency"
    short_key = "threshold"
    amount_name = "duration"
    spent = "Execution took"

    threshold: Amount = Field(description="milliseconds")

    def show(self, amount: float, other: float) -> str:  # noqa: ARG002 - it is shown in full
        return f"{format_number(amount)}ms"

    def check(self, metrics: ExecutionMetrics | TraceSummary) -> Score:
        return self.check_amount(metrics.duration_ms)
