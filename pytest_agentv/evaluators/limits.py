"""`latency`, `cost` and `token_usage`: amounts that are compared with limits (agentv-formats 6.9)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from pydantic import Field, model_validator

from pytest_agentv.evaluators.base import Evaluator, or_sync
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.shared import SLACK
from pytest_agentv.model.kind import Amount, spelled
from pytest_agentv.model.messages import ExecutionMetrics, TokenUsage, TraceSummary
from pytest_agentv.model.results import Score
from pytest_agentv.model.text import digits_apart, format_fixed, format_number


@dataclass(frozen=True, slots=True)
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


class TokenUsageLimit(Limit):
    """The most tokens an answer may use; at least one limit is set."""

    kind = "token_usage"
    short_key = "max_total"

    max_total: Amount | None = spelled(
        "max_total", "maxTotal", default=None, description="most tokens in all, cached ones too"
    )
    max_input: Amount | None = spelled("max_input", "maxInput", default=None, description="most tokens of the prompt")
    max_output: Amount | None = spelled(
        "max_output", "maxOutput", default=None, description="most tokens of the answer"
    )

    @model_validator(mode="after")
    def _needs_a_limit(self) -> Self:
        if self.max_total is None and self.max_input is None and self.max_output is None:
            raise ValueError("token_usage needs a limit: max_total, max_input or max_output")
        return self

    def check(self, metrics: ExecutionMetrics | TraceSummary) -> Score:
        return self.check_usage(metrics.token_usage)

    def check_usage(self, usage: TokenUsage | None) -> Score:
        """Judge numbers of tokens; the total counts cached ones too. None: they are not reported."""
        if usage is None:
            return self.unknown("No token usage data available in trace", "Token usage not reported by provider")
        amounts = (
            ("Input", usage.input, self.max_input),
            ("Output", usage.output, self.max_output),
            ("Total", usage.total, self.max_total),
        )
        checks = [
            LimitCheck(amount, limit, f"{name} tokens {format_number(amount)} {{}} {format_number(limit)}")
            for name, amount, limit in amounts
            if limit is not None
        ]
        shown = {"input": usage.input, "output": usage.output, "cached": usage.cached or 0, "total": usage.total}
        numbers = ", ".join(f"{name}={format_number(amount)}" for name, amount in shown.items())
        return score_limits(checks, f"token_usage {numbers}")
