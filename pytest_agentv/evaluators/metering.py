"""Counts what the models take that an evaluator asks: tokens and US dollars of judges are paid for as those of answers.

The count belongs to the evaluator that runs, not to the judge, which all evaluators of a case share.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from pytest_agentv.models.traces import JudgeMetrics, TokenUsage, added_judge_metrics
from pytest_agentv.providers.base import ProviderResponse


class Meter:
    """What the models took that one evaluator asked."""

    def __init__(self) -> None:
        self._parts: list[JudgeMetrics] = []

    @property
    def total(self) -> JudgeMetrics | None:
        """None: no model was asked."""
        return added_judge_metrics(self._parts)

    def add(self, calls: int, usage: TokenUsage | None, cost_usd: float | None) -> None:
        """Count calls that were made. Of several, only the last one says what it took."""
        usage = usage if usage is not None and _is_amount(usage.input) and _is_amount(usage.output) else None
        cost = cost_usd if _is_amount(cost_usd) else None
        self._parts += [JudgeMetrics(1) for _ in range(calls - 1)]
        self._parts.append(JudgeMetrics(1, token_usage=usage, cost_usd=cost))

    def take_over(self, parts: Iterable[JudgeMetrics]) -> None:
        """Count what evaluators counted whose results are dropped."""
        self._parts += parts

    def add_reply(self, response: ProviderResponse | None, calls: int = 1) -> None:
        """Count a reply and the calls that it took; None: nobody replied, which may have been paid for."""
        if response is None:
            self.add(calls, None, None)
        elif response.cached:
            self._parts += [*(JudgeMetrics(1) for _ in range(calls - 1)), JudgeMetrics(0, cached=1)]
        else:
            self.add(calls, response.token_usage, response.cost_usd)


_METER: Final[ContextVar[Meter | None]] = ContextVar("agentv_meter", default=None)


@contextmanager
def metering() -> Iterator[Meter]:
    """Count what is asked meanwhile in this task, and in those that it starts, except what has a count of its own."""
    token = _METER.set(Meter())
    try:
        yield current_meter()
    finally:
        _METER.reset(token)


def current_meter() -> Meter:
    """Return the count of the evaluator that runs; one that nobody reads where none is counted, as in a dry run."""
    return _METER.get() or Meter()


def _is_amount(value: object) -> bool:
    # Python targets and plugins can return values of any type.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
