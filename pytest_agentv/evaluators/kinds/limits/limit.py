"""The parts that `latency`, `cost` and `token_usage` share: they compare amounts with limits (agentv-formats 6.9)."""

from collections.abc import Sequence
from typing import ClassVar

from pytest_agentv.evaluators.base import Context, Evaluator, or_sync
from pytest_agentv.evaluators.shared import SLACK
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
        return self.amount <= self.limit + SLACK  # as floats, 0.1 + 0.2 is more than 0.3


class Limit(Evaluator):
    """A limit on a figure that the target reports."""

    is_graded = False
    reads_answer = False

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        # Empty metrics mean that nothing is known.
        score = self.check(context.metrics or context.trace_summary or ExecutionMetrics())
        # The mock of a dry run reports less than the target: that is no reason to refuse a negation.
        return score.replace(unknown=None) if context.dry_run else score

    def check(self, metrics: ExecutionMetrics | TraceSummary) -> Score:
        """Judge the reported metrics."""
        raise NotImplementedError

    def unknown(self, miss: str, reasoning: str) -> Score:
        """Score 0: the target reported nothing."""
        return Score(0.0, misses=(miss,), reasoning=reasoning, unknown=reasoning)


class AmountLimit(Limit):
    """A limit of one amount. Its `short_key` is the key of the limit."""

    amount_name: ClassVar[str]
    """What is limited: `cost`."""
    spent: ClassVar[str]
    """How a sentence says that it was spent: `Execution cost`."""

    def show(self, amount: float, other: float) -> str:
        """Return an amount with its unit, so that it differs from another one."""
        raise NotImplementedError

    def check_amount(self, amount: float | None) -> Score:
        """Judge an amount; None: it is not reported."""
        name, key = self.amount_name, str(self.short_key)
        if amount is None:
            return self.unknown(f"No {name} data available in trace", f"Execution {name} not reported by provider")
        limit: float = getattr(self, key)
        shown, most = self.show(amount, limit), self.show(limit, amount)
        check = LimitCheck(amount, limit, f"{name.capitalize()} {shown} {{}} {most} {key}")
        return score_limits([check], f"{self.spent} {shown} ({key}: {most})")


def score_limits(checks: Sequence[LimitCheck], reasoning: str) -> Score:
    """Score 1 within all limits, else 0."""
    hits = tuple(check.text.format("<=") for check in checks if check.is_met)
    misses = tuple(check.text.format(">") for check in checks if not check.is_met)
    return Score(0.0 if misses else 1.0, hits=hits, misses=misses, reasoning=reasoning)
