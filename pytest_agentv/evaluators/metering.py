"""Meters the models that an evaluator asks: tokens and US dollars of judges, which are paid for like those of answers.

The count belongs to the running evaluator, not to the judge, which all evaluators of a case share.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from pytest_agentv.models.base import is_amount
from pytest_agentv.models.traces import JudgeMetrics, TokenUsage, added_judge_metrics
from pytest_agentv.providers.base import ProviderResponse


class Meter:
    """The calls, tokens and US dollars of the models that one evaluator asked."""

    def __init__(self) -> None:
        self._parts: list[JudgeMetrics] = []

    @property
    def total(self) -> JudgeMetrics | None:
        """The figures; None: no model was asked."""
        return added_judge_metrics(self._parts)

    def add(self, calls: int, usage: TokenUsage | None, cost_usd: float | None) -> None:
        """Add calls. Only the last of them reports its figures."""
        is_known = isinstance(usage, TokenUsage) and is_amount(usage.input) and is_amount(usage.output)
        usage = usage if is_known else None  # users' code may report anything
        cost = cost_usd if is_amount(cost_usd) else None
        self._parts += [JudgeMetrics(1) for _ in range(calls - 1)]
        self._parts.append(JudgeMetrics(1, token_usage=usage, cost_usd=cost))

    def take_over(self, parts: Iterable[JudgeMetrics]) -> None:
        """Add the figures of evaluators whose results are dropped."""
        self._parts += parts

    def add_reply(self, response: ProviderResponse | None, calls: int = 1) -> None:
        """Add a reply and its calls; None: there was no reply, but the calls may have been paid for."""
        if response is None:
            self.add(calls, None, None)
        elif response.cached:
            self._parts += [*(JudgeMetrics(1) for _ in range(calls - 1)), JudgeMetrics(0, cached=1)]
        else:
            self.add(calls, response.token_usage, response.cost_usd)


_METER: Final[ContextVar[Meter | None]] = ContextVar("agentv_meter", default=None)


@contextmanager
def metering() -> Iterator[Meter]:
    """Meter all questions of this task and of tasks that it starts, except those with a meter of their own."""
    token = _METER.set(Meter())
    try:
        yield current_meter()
    finally:
        _METER.reset(token)


def current_meter() -> Meter:
    """Return the meter of the running evaluator. Without one, as in a dry run, return an unused meter."""
    return _METER.get() or Meter()
