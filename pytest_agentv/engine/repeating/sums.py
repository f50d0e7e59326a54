"""Makes the metrics of single answers add up to those of their case, which may include answers that are gone."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.traces import ExecutionMetrics, JudgeMetrics, TokenUsage

N = TypeVar("N", int, float)
T = TypeVar("T")

_NUMBERS: Final = ("attempts", "request_attempts", "waited_ms", "judge_retries", "duration_ms")
_DIGITS: Final = 9
"""Smaller differences are those of rounding."""


def adding_up(result: EvalResult, answers: Sequence[EvalResult], paid: int) -> tuple[EvalResult, ...]:
    """Return answers whose metrics add up to those of their case: one of them gets what is missing.

    Args:
        result: The result of the case.
        answers: Its judged answers, each with its own metrics.
        paid: How many of them count as paid for. If all are cached, these are the first ones.
    """
    if not answers:
        return ()
    if not result.cached and all(each.cached for each in answers):
        total = result.execution_metrics
        answers = [_as_paid(each, total) if number < paid else each for number, each in enumerate(answers)]
    place = next((number for number, each in enumerate(answers) if not each.cached), 0)
    chosen = answers[place].replace(**_metrics(result, answers, place))
    return tuple(chosen if number == place else each for number, each in enumerate(answers))


def _as_paid(answer: EvalResult, total: ExecutionMetrics | None) -> EvalResult:
    """Return a cached answer as one that was paid for, without what is not known of those that were."""
    own = answer.execution_metrics
    if total is None or own is None:
        return answer.replace(cached=None, execution_metrics=None)
    cost = None if total.cost_usd is None else own.cost_usd
    usage = None if total.token_usage is None else own.token_usage
    return answer.replace(cached=None, execution_metrics=own.replace(cost_usd=cost, token_usage=usage))


def _metrics(result: EvalResult, answers: Sequence[EvalResult], place: int) -> JsonObject:
    """Return the metrics of the answer at a place, with what the others lack of those of the case."""
    own = answers[place]
    others = [each for number, each in enumerate(answers) if number != place]
    counted = [each for each in others if result.cached or not each.cached]
    numbers = {
        name: _rest(getattr(own, name), getattr(result, name), [getattr(each, name) for each in others])
        for name in _NUMBERS
    }
    return {
        **numbers,
        "execution_metrics": _execution(
            own.execution_metrics, result.execution_metrics, _known(each.execution_metrics for each in counted)
        ),
        "judge_metrics": _judges(
            own.judge_metrics, result.judge_metrics, _known(each.judge_metrics for each in others)
        ),
    }


def _known(parts: Iterable[T | None]) -> list[T]:
    return [part for part in parts if part is not None]


def _rest(own: N | None, total: N | None, others: Iterable[N | None]) -> N | None:
    """Return what a sum has beyond the other values; the own value, if they add up or the sum is not known."""
    if total is None:
        return own
    rest = round(total - sum(_known(others)), _DIGITS)
    return own if rest == round(own or 0, _DIGITS) else max(rest, 0)


def _execution(
    own: ExecutionMetrics | None, total: ExecutionMetrics | None, others: Sequence[ExecutionMetrics]
) -> ExecutionMetrics | None:
    if total is None:
        return own
    known = own or ExecutionMetrics()
    metrics = known.replace(
        token_usage=_usage(known.token_usage, total.token_usage, [each.token_usage for each in others]),
        cost_usd=_rest(known.cost_usd, total.cost_usd, [each.cost_usd for each in others]),
        duration_ms=_rest(known.duration_ms, total.duration_ms, [each.duration_ms for each in others]),
        tool_durations=_times(total.tool_durations or {}, [each.tool_durations or {} for each in others]) or None,
    )
    return own if metrics == known else metrics


def _usage(own: TokenUsage | None, total: TokenUsage | None, others: Iterable[TokenUsage | None]) -> TokenUsage | None:
    if total is None:
        return own
    known, parts = own or TokenUsage(0, 0), _known(others)
    usage = TokenUsage(
        _rest(known.input, total.input, [each.input for each in parts]) or 0,
        _rest(known.output, total.output, [each.output for each in parts]) or 0,
        _rest(known.cached, total.cached, [each.cached for each in parts]),
        _rest(known.reasoning, total.reasoning, [each.reasoning for each in parts]),
    )
    return own if usage == known else usage


def _times(
    total: Mapping[str, Sequence[float]], others: Sequence[Mapping[str, Sequence[float]]]
) -> dict[str, tuple[float, ...]]:
    """Return the times of tool calls that the others do not have."""
    rests = {
        tool: Counter(times) - Counter(t for each in others for t in each.get(tool, ()))
        for tool, times in total.items()
    }
    return {tool: tuple(rest.elements()) for tool, rest in rests.items() if rest}


def _judges(
    own: JudgeMetrics | None, total: JudgeMetrics | None, others: Sequence[JudgeMetrics]
) -> JudgeMetrics | None:
    if total is None:
        return own
    known = own or JudgeMetrics(0)
    calls = total.calls - sum(each.calls for each in others)
    metered = total.known_tokens - sum(each.known_tokens for each in others)
    priced = total.known_costs - sum(each.known_costs for each in others)
    metrics = JudgeMetrics(
        calls,
        cached=_rest(known.cached, total.cached, [each.cached for each in others]),
        token_usage=_usage(known.token_usage, total.token_usage, [each.token_usage for each in others]),
        cost_usd=_rest(known.cost_usd, total.cost_usd, [each.cost_usd for each in others]),
        metered=metered if 0 < metered < calls else None,
        priced=priced if 0 < priced < calls else None,
    )
    return own if metrics == known else metrics
