"""`latency`, `cost` and `token_usage`: what an answer took, held against a limit (agentv-formats 6.9)."""

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_agentv.evaluators.base import EvaluationContext
from pytest_agentv.models.evaluator_configs import CostConfig, LatencyConfig, TokenUsageConfig
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import format_fixed, format_number
from pytest_agentv.models.traces import ExecutionMetrics, TokenUsage, TraceSummary


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """One amount and the most it may be, as text and as numbers."""

    amount: float
    limit: float
    text: str
    """With `{}` where the sign of the comparison goes."""

    @property
    def is_met(self) -> bool:
        return self.amount <= self.limit


@dataclass(frozen=True, slots=True)
class LatencyEvaluator:
    """Passes answers that took no longer than the threshold."""

    config: LatencyConfig

    async def evaluate(self, context: EvaluationContext) -> Score:
        return score_latency(self.config, reported_metrics(context).duration_ms)


@dataclass(frozen=True, slots=True)
class CostEvaluator:
    """Passes answers that cost no more than the budget."""

    config: CostConfig

    async def evaluate(self, context: EvaluationContext) -> Score:
        return score_cost(self.config, reported_metrics(context).cost_usd)


@dataclass(frozen=True, slots=True)
class TokenUsageEvaluator:
    """Passes answers that used no more tokens than each of the limits."""

    config: TokenUsageConfig

    async def evaluate(self, context: EvaluationContext) -> Score:
        return score_token_usage(self.config, reported_metrics(context).token_usage)


def reported_metrics(context: EvaluationContext) -> ExecutionMetrics | TraceSummary:
    """Return what says how long the answer took and what it cost; nothing known is empty metrics."""
    return context.metrics or context.trace_summary or ExecutionMetrics()


def score_latency(config: LatencyConfig, duration_ms: float | None) -> Score:
    """Score a duration in milliseconds."""
    if duration_ms is None:
        return _unknown("No duration data available in trace", "Execution duration not reported by provider")
    duration, threshold = f"{format_number(duration_ms)}ms", f"{format_number(config.threshold)}ms"
    check = LimitCheck(duration_ms, config.threshold, f"Duration {duration} {{}} {threshold} threshold")
    return _score([check], f"Execution took {duration} (threshold: {threshold})")


def score_cost(config: CostConfig, cost_usd: float | None) -> Score:
    """Score a cost in US dollars."""
    if cost_usd is None:
        return _unknown("No cost data available in trace", "Execution cost not reported by provider")
    cost, budget = f"${format_fixed(cost_usd, 4)}", f"${format_fixed(config.budget, 4)}"
    check = LimitCheck(cost_usd, config.budget, f"Cost {cost} {{}} {budget} budget")
    return _score([check], f"Execution cost {cost} (budget: {budget})")


def score_token_usage(config: TokenUsageConfig, usage: TokenUsage | None) -> Score:
    """Score numbers of tokens; the total counts cached ones too."""
    if usage is None:
        return _unknown("No token usage data available in trace", "Token usage not reported by provider")
    amounts = (
        ("Input", usage.input, config.max_input),
        ("Output", usage.output, config.max_output),
        ("Total", usage.total, config.max_total),
    )
    checks = [
        LimitCheck(amount, limit, f"{name} tokens {format_number(amount)} {{}} {format_number(limit)}")
        for name, amount, limit in amounts
        if limit is not None
    ]
    return _score(checks, f"token_usage {_describe(usage)}")


def _describe(usage: TokenUsage) -> str:
    amounts = {"input": usage.input, "output": usage.output, "cached": usage.cached or 0, "total": usage.total}
    return ", ".join(f"{name}={format_number(amount)}" for name, amount in amounts.items())


def _score(checks: Sequence[LimitCheck], reasoning: str) -> Score:
    hits = tuple(check.text.format("<=") for check in checks if check.is_met)
    misses = tuple(check.text.format(">") for check in checks if not check.is_met)
    return Score(0.0 if misses else 1.0, hits=hits, misses=misses, reasoning=reasoning)


def _unknown(miss: str, reasoning: str) -> Score:
    return Score(0.0, misses=(miss,), reasoning=reasoning)
