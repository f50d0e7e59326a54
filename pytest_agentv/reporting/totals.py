"""The figures of a whole run, formatted for people. Each report chooses which ones to show."""

import math
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.text import counted
from pytest_agentv.models.traces import JudgeMetrics, added_judge_metrics, added_usage
from pytest_agentv.reporting.figures import (
    asked_nothing,
    cost_of,
    format_cost,
    format_duration,
    format_score,
    format_tokens,
    known_answers,
    tokens_of,
)
from pytest_agentv.reporting.statistics import ScoreStatistics

_LEAST_CASES: Final = 5
_LEAST_MS: Final = 5_000
"""Shorter runs gain little."""
_LEAST_SHARE: Final = 0.8
_MOST_AT_ONCE: Final = 0.05
"""Cases whose times overlap by more did not wait for one another."""
_MOST_WORKERS: Final = 20


@record
class Figure(Record):
    """One figure of a run."""

    name: str
    value: str


def score_figures(statistics: ScoreStatistics) -> Iterator[Figure]:
    """Yield the figures of the scores."""
    figures = {
        "Mean score": statistics.mean,
        "Median": statistics.median,
        "Min": statistics.minimum,
        "Max": statistics.maximum,
        "Std deviation": statistics.standard_deviation,
    }
    for name, value in figures.items():
        if value is not None:
            yield Figure(name, format_score(value))


def total_figures(
    results: Sequence[EvalResult], elapsed_ms: float | None, earlier: Sequence[EvalResult] = ()
) -> Iterator[Figure]:
    """Yield time, cost and tokens of the run, with those of judges apart. Cached answers cost nothing.

    `earlier` are results that later ones replaced. They count because they were paid for.
    """
    yield from _money(results, earlier)
    if earlier:
        yield from _replaced(results, earlier)
    cached = sum(bool(result.cached) for result in results)
    if cached:
        yield Figure("From the cache", str(cached))
    if elapsed_ms is not None:
        yield Figure("Time", format_duration(elapsed_ms))


def _replaced(results: Sequence[EvalResult], earlier: Sequence[EvalResult]) -> Iterator[Figure]:
    """Yield how often a plugin had cases asked anew, and how many results were replaced for other reasons."""
    from pytest_agentv.reporting.merging.replaced import are_reruns, attempt_of  # noqa: PLC0415 - few runs need it
    from pytest_agentv.reporting.verdicts.case_reading import name_of_result  # noqa: PLC0415 - as above

    before, last = ([(name_of_result(each), attempt_of(each)) for each in some] for some in (earlier, results))
    reruns = sum(are_reruns(before, last))
    if reruns:
        yield Figure("Reruns", str(reruns))
    if others := len(earlier) - reruns:
        yield Figure("Replaced", counted(others, "result"))


def _money(results: Sequence[EvalResult], earlier: Sequence[EvalResult]) -> Iterator[Figure]:
    paid = [result for result in (*results, *earlier) if not result.cached and not asked_nothing(result)]
    noun = "results" if earlier else "cases"
    judges = added_judge_metrics(result.judge_metrics for result in (*results, *earlier)) or JudgeMetrics(0)
    costs = [cost for result in paid if (cost := cost_of(result)) is not None]
    money = [format_cost(sum(costs)) + _known_for(paid, "priced", noun)] if costs else []
    if judges.cost_usd is not None:
        money.append(f"{format_cost(judges.cost_usd)} for judges{_known_calls(judges.known_costs, judges)}")
    if money:
        yield Figure("Cost", "; ".join(money))
    usage = added_usage(map(tokens_of, paid))
    tokens = [format_tokens(usage) + _known_for(paid, "metered", noun)] if usage else []
    if judges.token_usage is not None:
        known = _known_calls(judges.known_tokens, judges)
        tokens.append(f"{format_tokens(judges.token_usage)} for judges{known}")
    if tokens:
        yield Figure("Tokens", "; ".join(tokens))


def _known_calls(known: int, judges: JudgeMetrics) -> str:
    return "" if known == judges.calls else f", known for {known} of {judges.calls} calls"


def waiting_hint(results: Sequence[EvalResult], elapsed_ms: float, cpu_ms: float) -> str | None:
    """Return `48 cases one after another, 98 % waiting: try --agentv-workers=20`; None: the run did not wait like this.

    `cpu_ms` is this process's CPU time, which more workers do not shorten.
    """
    asked = [result for result in results if result.duration_ms is not None and not result.cached]
    busy_ms = math.fsum(result.duration_ms or 0 for result in asked)
    if len(asked) < _LEAST_CASES or elapsed_ms < _LEAST_MS or _at_once_ms(asked) > _MOST_AT_ONCE * busy_ms:
        return None
    share = min(busy_ms, elapsed_ms - cpu_ms) / elapsed_ms
    if share < _LEAST_SHARE:
        return None
    workers = min(_MOST_WORKERS, len(asked))
    return f"{len(asked)} cases one after another, {share:.0%} waiting: try --agentv-workers={workers}".replace(
        "%", " %"
    )


def _at_once_ms(results: Sequence[EvalResult]) -> float:
    """Return by how much the times of cases overlap. A case was at work for `duration_ms` before its timestamp."""
    from pytest_agentv.reporting.verdicts.case_reading import ended_at  # noqa: PLC0415 - long runs need it

    overlap_ms, busy_until = 0.0, -math.inf
    ends = ((time.timestamp() * 1000, each) for each in results if (time := ended_at(each.timestamp)) is not None)
    for start, end in sorted((end - (each.duration_ms or 0), end) for end, each in ends):
        overlap_ms += max(0.0, min(end, busy_until) - start)
        busy_until = max(busy_until, end)
    return overlap_ms


def _known_for(results: Sequence[EvalResult], key: Literal["priced", "metered"], noun: str) -> str:
    """Return how many cases a sum covers, or how many answers if it covers only some answers of a case."""
    counts = (known_answers(result, key) for result in results)
    parts = [(known, asked) for known, asked in counts if asked]  # all answers may be from an earlier run
    if any(0 < known < asked for known, asked in parts):
        return f", known for {sum(known for known, _ in parts)} of {sum(asked for _, asked in parts)} answers"
    count = sum(known > 0 for known, _ in parts)
    return "" if count == len(parts) else f", known for {count} of {len(parts)} {noun}"
