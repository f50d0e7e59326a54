"""The figures of a whole run, formatted for people. Each report chooses which ones to show."""

from collections.abc import Iterator, Sequence

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


def _known_for(count: int, total: int, noun: str) -> str:
    return "" if count == total else f", known for {count} of {total} {noun}"


def _total_usage(usages: Sequence[TokenUsage]) -> TokenUsage:
    return TokenUsage(
        input=sum(usage.input for usage in usages),
        output=sum(usage.output for usage in usages),
        cached=sum(usage.cached or 0 for usage in usages),
        reasoning=sum(usage.reasoning or 0 for usage in usages),
    )
