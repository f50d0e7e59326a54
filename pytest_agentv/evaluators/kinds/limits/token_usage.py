"""`token_usage`: how many tokens the answer used."""

from typing import Self

from pydantic import model_validator

from pytest_agentv.evaluators.kinds.limits.limit import Limit, LimitCheck, score_limits
from pytest_agentv.models.kind import Amount, spelled
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import format_number
from pytest_agentv.models.traces import ExecutionMetrics, TokenUsage, TraceSummary


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
        return score_limits(checks, f"token_usage {_describe(usage)}")


def _describe(usage: TokenUsage) -> str:
    amounts = {"input": usage.input, "output": usage.output, "cached": usage.cached or 0, "total": usage.total}
    return ", ".join(f"{name}={format_number(amount)}" for name, amount in amounts.items())
