"""`latency`: how long the answer took."""

from pydantic import Field

from pytest_agentv.evaluators.base import Context, Evaluator
from pytest_agentv.evaluators.comparing.limits import LimitCheck, reported_metrics, score_limits, unknown_amount
from pytest_agentv.models.kind import Amount
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import format_number


class Latency(Evaluator):
    """The longest an answer may take."""

    kind = "latency"
    short_key = "threshold"
    is_graded = False
    reads_answer = False

    threshold: Amount = Field(description="milliseconds")

    async def evaluate(self, context: Context) -> Score:
        return score_latency(self, reported_metrics(context).duration_ms)


def score_latency(config: Latency, duration_ms: float | None) -> Score:
    """Score a duration in milliseconds."""
    if duration_ms is None:
        return unknown_amount(
            config, "No duration data available in trace", "Execution duration not reported by provider"
        )
    duration, threshold = f"{format_number(duration_ms)}ms", f"{format_number(config.threshold)}ms"
    check = LimitCheck(duration_ms, config.threshold, f"Duration {duration} {{}} {threshold} threshold")
    return score_limits([check], f"Execution took {duration} (threshold: {threshold})")
