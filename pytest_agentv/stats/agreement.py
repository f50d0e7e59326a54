"""How far a judge agrees with people's labels."""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pytest_agentv.model.base import Record
from pytest_agentv.stats.intervals import Interval, Z, wilson

Weighting: TypeAlias = Literal["none", "linear", "quadratic"]
Level: TypeAlias = Literal["nominal", "ordinal", "interval"]

LEAST_LABELS: Final = 100
LEAST_OF_A_CLASS: Final = 5
"""The least number of labels of each class for a corrected rate."""


@dataclass(frozen=True, slots=True)
class Confusion(Record):
    """A judge's verdicts against labels, both pass or fail."""

    both_pass: int
    only_judge: int
    only_label: int
    both_fail: int

    @property
    def true_positive_rate(self) -> tuple[float, Interval] | None:
        """The share of labelled passes that the judge passes; None without any."""
        return _share(self.both_pass, self.both_pass + self.only_label)

    @property
    def false_positive_rate(self) -> tuple[float, Interval] | None:
        """The share of labelled fails that the judge passes; None without any."""
        return _share(self.only_judge, self.only_judge + self.both_fail)


@dataclass(frozen=True, slots=True)
class CorrectedRate(Record):
    """A pass rate corrected for the judge's errors; approximate."""

    rate: float
    interval: Interval
    tuning: float
    """The weight of the unlabelled verdicts, 0 to 1."""


def confusion(judge: Sequence[bool], labels: Sequence[bool]) -> Confusion:
    counts = Counter(zip(judge, labels, strict=True))
    return Confusion(counts[True, True], counts[True, False], counts[False, True], counts[False, False])


def _share(count: int, of: int) -> tuple[float, Interval] | None:
    return (count / of, wilson(count / of, of)) if of else None


def kappa(first: Sequence[float], second: Sequence[float], weighting: Weighting = "none") -> float | None:
    """Return Cohen's kappa of two raters; None where both are constant. Source: Cohen 1960 and 1968.

    With weights, the distance of two ratings counts: their difference, or its square.
    """
    if not first or (len(set(first)) == 1 and len(set(second)) == 1):
        return None
    seen = math.fsum(_distance(a, b, weighting) for a, b in zip(first, second, strict=True)) / len(first)
    ours, theirs = Counter(first), Counter(second)
    chance = math.fsum(
        _distance(a, b, weighting) * count * other for a, count in ours.items() for b, other in theirs.items()
    )
    return 1.0 - seen / (chance / len(first) ** 2)


def _distance(a: float, b: float, weighting: Weighting) -> float:
    if weighting == "none":
        return float(a != b)
    return abs(a - b) if weighting == "linear" else (a - b) ** 2


def krippendorff_alpha(ratings: Sequence[Sequence[float | None]], level: Level = "nominal") -> float | None:
    """Return Krippendorff's alpha; None where all ratings are the same or none can be paired.

    Args:
        ratings: The ratings of each thing rated, None where a rater gave none.
        level: How far two ratings are apart: equal or not, by rank, or by their difference.

    Source: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability".
    """
    units = [[value for value in unit if value is not None] for unit in ratings]
    units = [unit for unit in units if len(unit) > 1]
    totals = Counter(value for unit in units for value in unit)
    n = sum(totals.values())
    squares = _squared_distances(totals, level)
    expected = math.fsum(totals[a] * totals[b] * squares[a, b] for a in totals for b in totals)
    if not expected:
        return None
    observed = math.fsum(
        count * other * squares[a, b] / (len(unit) - 1)
        for unit in units
        for a, count in Counter(unit).items()
        for b, other in Counter(unit).items()
    )
    return 1.0 - (n - 1) * observed / expected


def _squared_distances(totals: Mapping[float, int], level: Level) -> Mapping[tuple[Hashable, Hashable], float]:
    ordered = sorted(totals)
    squares: dict[tuple[Hashable, Hashable], float] = {}
    for i, a in enumerate(ordered):
        for j, b in enumerate(ordered):
            if level == "nominal":
                squares[a, b] = float(a != b)
            elif level == "interval":
                squares[a, b] = (a - b) ** 2
            else:
                between = sum(totals[value] for value in ordered[min(i, j) : max(i, j) + 1])
                squares[a, b] = (between - (totals[a] + totals[b]) / 2) ** 2
    return squares


def corrected_rate(
    judge: Sequence[float], labels: Sequence[float], unlabelled: Sequence[float]
) -> CorrectedRate | None:
    """Return the pass rate of all cases, corrected by those that people labelled; None with too few labels.

    Args:
        judge: The judge's verdicts of the labelled cases, 0 or 1.
        labels: Their labels, 0 or 1.
        unlabelled: The judge's verdicts of cases without labels.

    Source: Angelopoulos, Duchi and Zrnic 2023, "PPI++".
    """
    least = min(sum(label == 0 for label in labels), sum(label == 1 for label in labels))
    if len(labels) < LEAST_LABELS or least < LEAST_OF_A_CLASS or len(unlabelled) < 2:
        return None
    found = ppi(judge, labels, unlabelled)
    bounds = Interval(_clipped(found.interval.low), _clipped(found.interval.high))
    return CorrectedRate(_clipped(found.rate), bounds, found.tuning)


def _clipped(rate: float) -> float:
    return min(1.0, max(0.0, rate))


def ppi(judge: Sequence[float], labels: Sequence[float], unlabelled: Sequence[float]) -> CorrectedRate:
    """Return the prediction-powered mean of labels. `corrected_rate` says when it is valid.

    A correction may lead outside of 0 to 1.
    """
    n, more = len(labels), len(unlabelled)
    spread_of_judge = _covariance([*judge, *unlabelled], [*judge, *unlabelled])
    tuning = 0.0
    if spread_of_judge > 0:
        tuning = min(1.0, max(0.0, _covariance(labels, judge) / ((1 + n / more) * spread_of_judge)))
    rest = [label - tuning * verdict for label, verdict in zip(labels, judge, strict=True)]
    rate = tuning * math.fsum(unlabelled) / more + math.fsum(rest) / n
    variance = tuning**2 * _covariance(unlabelled, unlabelled) / more + _covariance(rest, rest) / n
    half = Z * math.sqrt(variance)
    return CorrectedRate(rate, Interval(rate - half, rate + half), tuning)


def _covariance(first: Sequence[float], second: Sequence[float]) -> float:
    a, b = math.fsum(first) / len(first), math.fsum(second) / len(second)
    return math.fsum((x - a) * (y - b) for x, y in zip(first, second, strict=True)) / (len(first) - 1)
