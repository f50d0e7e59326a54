"""Statistics over the scores of a run. Cases that could not be judged have no score and do not count."""

import statistics
from collections.abc import Sequence
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult

BIN_LABELS: Final = ("0.0-0.2", "0.2-0.4", "0.4-0.6", "0.6-0.8", "0.8-1.0")
EXTREMES: Final = 3
"""Number of cases shown as highest and as lowest."""

_SLACK: Final = 1e-9
"""0.7 - 0.1 is slightly less than 0.6 in floats, but must count as 0.6."""


@record
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
    return ScoreStatistics(
        mean=statistics.fmean(scores),
        median=statistics.median(scores),
        minimum=min(scores),
        maximum=max(scores),
        standard_deviation=statistics.stdev(scores) if len(scores) > 1 else None,
        bins=_bins(scores),
    )


def judged_results(results: Sequence[EvalResult]) -> list[EvalResult]:
    """Return the results that have a score."""
    return [result for result in results if result.status != "error"]


def top_results(results: Sequence[EvalResult]) -> list[EvalResult]:
    """Return the three judged results with the highest scores, best first."""
    return sorted(judged_results(results), key=lambda result: -result.score)[:EXTREMES]


def lowest_results(results: Sequence[EvalResult]) -> list[EvalResult]:
    """Return the three judged results with the lowest scores, worst first."""
    return sorted(judged_results(results), key=lambda result: result.score)[:EXTREMES]


def _bins(scores: Sequence[float]) -> tuple[int, int, int, int, int]:
    indexes = [min(4, max(0, int((score + _SLACK) * 5))) for score in scores]
    return (indexes.count(0), indexes.count(1), indexes.count(2), indexes.count(3), indexes.count(4))
