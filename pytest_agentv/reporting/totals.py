"""The figures of a whole run, formatted for people. Each report chooses which ones to show."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.traces import TokenUsage
from pytest_agentv.reporting.figures import (
    cost_of,
    format_cost,
    format_duration,
    format_score,
    format_tokens,
    tokens_of,
)
from pytest_agentv.reporting.statistics import ScoreStatistics

_LEAST_CASES: Final = 5
_LEAST_MS: Final = 5_000
"""A shorter run gains little."""
_LEAST_SHARE: Final = 0.8
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
    """Yield time, cost and tokens of the run. Answers from the cache cost nothing.

    `earlier` are results that reruns replaced. They count because they were paid for.
    """
    paid = [result for result in (*results, *earlier) if not result.cached]
    noun = "results" if earlier else "cases"
    costs = [cost for result in paid if (cost := cost_of(result)) is not None]
    if costs:
        yield Figure("Cost", format_cost(sum(costs)) + _known_for(len(costs), len(paid), noun))
    usages = [usage for result in paid if (usage := tokens_of(result)) is not None]
    if usages:
        yield Figure("Tokens", format_tokens(_total_usage(usages)) + _known_for(len(usages), len(paid), noun))
    if earlier:
        yield Figure("Reruns", str(len(earlier)))
    cached = sum(bool(result.cached) for result in results)
    if cached:
        yield Figure("From the cache", str(cached))
    if elapsed_ms is not None:
        yield Figure("Time", format_duration(elapsed_ms))


def waiting_hint(results: Sequence[EvalResult], elapsed_ms: float, cpu_ms: float) -> str | None:
    """Return `48 cases one after another, 98 % waiting: try --agentv-workers=20`; None: the run did not wait so.

    `cpu_ms` is the time in which this process computed, which more workers do not shorten.
    """
    asked = [result for result in results if result.duration_ms is not None and not result.cached]
    busy_ms = math.fsum(result.duration_ms or 0 for result in asked)
    if len(asked) < _LEAST_CASES or elapsed_ms < _LEAST_MS or busy_ms > elapsed_ms:
        return None  # few cases, a short run, or some of them ran at the same time
    share = min(busy_ms, elapsed_ms - cpu_ms) / elapsed_ms
    if share < _LEAST_SHARE:
        return None
    workers = min(_MOST_WORKERS, len(asked))
    return f"{len(asked)} cases one after another, {share:.0%} waiting: try --agentv-workers={workers}".replace(
        "%", " %"
    )


def _known_for(count: int, total: int, noun: str) -> str:
    return "" if count == total else f", known for {count} of {total} {noun}"


def _total_usage(usages: Sequence[TokenUsage]) -> TokenUsage:
    return TokenUsage(
        input=sum(usage.input for usage in usages),
        output=sum(usage.output for usage in usages),
        cached=sum(usage.cached or 0 for usage in usages),
        reasoning=sum(usage.reasoning or 0 for usage in usages),
    )
