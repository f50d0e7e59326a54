"""The figures of a whole run: totals, statistics over scores, and what replaced results cost."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_agentv.model.base import Record
from pytest_agentv.model.messages import Costs
from pytest_agentv.model.results import EvalResult, Spent
from pytest_agentv.reports.figures import (
    format_cost,
    format_duration,
    format_score,
    format_tokens,
    spent_of,
)

BIN_LABELS: Final = ("0.0-0.2", "0.2-0.4", "0.4-0.6", "0.6-0.8", "0.8-1.0")
EXTREMES: Final = 3
"""Number of cases shown as highest and as lowest."""

_SLACK: Final = 1e-9
"""0.7 - 0.1 is slightly less than 0.6 in floats, but must count as 0.6."""


@dataclass(frozen=True, slots=True)
class ScoreStatistics(Record):
    """The statistics of a summary. They do not depend on the order of the results."""

    mean: float
    median: float
    minimum: float
    maximum: float
    standard_deviation: float | None
    """Of the sample (n - 1); None for a single score."""
    bins: tuple[int, int, int, int, int]
    """Scores in [0,0.2), [0.2,0.4), [0.4,0.6), [0.6,0.8), [0.8,1]."""


def score_statistics(scores: Sequence[float]) -> ScoreStatistics | None:
    """Return the statistics of some scores; None without scores.

    Source: eval-cli-2026-01, "Statistics and distribution".
    """
    if not scores:
        return None
    bins = [min(4, max(0, int((score + _SLACK) * 5))) for score in scores]
    return ScoreStatistics(
        mean=statistics.fmean(scores),
        median=statistics.median(scores),
        minimum=min(scores),
        maximum=max(scores),
        standard_deviation=statistics.stdev(scores) if len(scores) > 1 else None,
        bins=(bins.count(0), bins.count(1), bins.count(2), bins.count(3), bins.count(4)),
    )


def judged_results(results: Sequence[EvalResult]) -> list[EvalResult]:
    return [result for result in results if result.status != "error"]


def top_results(results: Sequence[EvalResult]) -> list[EvalResult]:
    """Return the three judged results with the highest scores, best first."""
    return sorted(judged_results(results), key=lambda result: -result.score)[:EXTREMES]


def lowest_results(results: Sequence[EvalResult]) -> list[EvalResult]:
    """Return the three judged results with the lowest scores, worst first."""
    return sorted(judged_results(results), key=lambda result: result.score)[:EXTREMES]


# The figures of a whole run, formatted for people. Each report chooses which ones to show.

_LEAST_CASES: Final = 5
_LEAST_MS: Final = 5_000
"""Shorter runs gain little."""
_LEAST_SHARE: Final = 0.8
_MOST_AT_ONCE: Final = 0.05
"""Cases whose times overlap by more did not wait for one another."""
_MOST_WORKERS: Final = 20


@dataclass(frozen=True, slots=True)
class Figure(Record):
    """One figure of a run."""

    name: str
    value: str


def score_figures(statistics: ScoreStatistics) -> Iterator[Figure]:
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


def total_figures(results: Sequence[EvalResult], elapsed_ms: float | None) -> Iterator[Figure]:
    """Yield time, cost and tokens of the run, with those of judges apart. Cached answers cost nothing.

    The last result of a case tells all that was paid for it.
    """
    spent = Spent.added(map(spent_of, results))
    parts = [(spent.answer, ""), *([] if spent.judge is None else [(spent.judge, " for judges")])]
    money = [
        f"{format_cost(costs.cost_usd)}{of}{_known_for(costs.cost_known, costs)}"
        for costs, of in parts
        if costs.cost_known
    ]
    if money:
        yield Figure("Cost", "; ".join(money))
    tokens = [
        f"{format_tokens(costs.usage)}{of}{_known_for(costs.tokens_known, costs)}" for costs, of in parts if costs.usage
    ]
    if tokens:
        yield Figure("Tokens", "; ".join(tokens))
    reruns = sum(result.reruns or 0 for result in results)
    if reruns:
        yield Figure("Reruns", str(reruns))
    cached = sum(bool(result.cached) for result in results)
    if cached:
        yield Figure("From the cache", str(cached))
    if elapsed_ms is not None:
        yield Figure("Time", format_duration(elapsed_ms))


def _known_for(known: int, costs: Costs) -> str:
    return "" if known == costs.calls else f", known for {known:,} of {costs.calls:,} calls"


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
    from pytest_agentv.reports.judged_cases import ended_at  # noqa: PLC0415 - long runs need it

    overlap_ms, busy_until = 0.0, -math.inf
    ends = ((time.timestamp() * 1000, each) for each in results if (time := ended_at(each.timestamp)) is not None)
    for start, end in sorted((end - (each.duration_ms or 0), end) for end, each in ends):
        overlap_ms += max(0.0, min(end, busy_until) - start)
        busy_until = max(busy_until, end)
    return overlap_ms
