"""The parts that `latency`, `cost` and `token_usage` share: they compare amounts with limits (agentv-formats 6.9)."""

from collections.abc import Sequence

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Context, Evaluator
from pytest_agentv.models.records import record
from pytest_agentv.models.scores import Score
from pytest_agentv.models.traces import ExecutionMetrics, TraceSummary


@record
class LimitCheck:
    """One amount and the most it may be, as text and as numbers."""

    amount: float
    limit: float
    text: str
    """With `{}` where the sign of the comparison goes."""

    @property
    def is_met(self) -> bool:
        return self.amount <= self.limit


def reported_metrics(context: Context) -> ExecutionMetrics | TraceSummary:
    """Return the metrics of the answer; empty metrics if nothing is known."""
    return context.metrics or context.trace_summary or ExecutionMetrics()


def score_limits(checks: Sequence[LimitCheck], reasoning: str) -> Score:
    """Score 1 within all limits, else 0."""
    hits = tuple(check.text.format("<=") for check in checks if check.is_met)
    misses = tuple(check.text.format(">") for check in checks if not check.is_met)
    return Score(0.0 if misses else 1.0, hits=hits, misses=misses, reasoning=reasoning)


def unknown_amount(config: Evaluator, miss: str, reasoning: str) -> Score:
    """Score 0: the target reported nothing. Raises `EvaluatorError` where that would be negated into a pass."""
    if config.negate:
        raise EvaluatorError(f"{reasoning}: there is nothing to negate", kind="config")
    return Score(0.0, misses=(miss,), reasoning=reasoning)
