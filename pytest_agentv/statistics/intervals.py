"""Intervals of shares and means."""

import math
from collections.abc import Hashable, Sequence

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.statistics.distributions import LEVEL, Z, t_quantile


@record
class Interval(Record):
    """A range that holds the true value in 95 of 100 runs."""

    low: float
    high: float


@record
class Estimate(Record):
    """A mean with its interval, which is None with fewer than two independent units."""

    mean: float
    interval: Interval | None
    units: int
    """Independent units: groups of cases, or cases where none share a group."""


@record
class Spread(Record):
    """A weighted mean and its standard error, with cases that share a group counted as one unit."""

    mean: float
    error: float
    """0 with one unit, where there is no standard error."""
    units: int


def wilson(share: float, n: float) -> Interval:
    """Return the score interval of a share that was seen among n > 0; n need not be whole.

    Source: Wilson 1927.
    """
    z2 = Z * Z
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z / (1 + z2 / n) * math.sqrt(max(0.0, share * (1 - share)) / n + z2 / (4 * n * n))
    low = 0.0 if share <= 0 else max(0.0, centre - half)
    high = 1.0 if share >= 1 else min(1.0, centre + half)
    return Interval(low, high)


def spread(
    values: Sequence[float], groups: Sequence[Hashable] | None = None, weights: Sequence[float] | None = None
) -> Spread:
    """Return the weighted mean of at least one value and its cluster-robust standard error.

    The factor C/(C - 1) corrects for the number of units C. Source: Liang and Zeger 1986, with the usual correction.
    """
    weighing = [1.0] * len(values) if weights is None else weights
    total = math.fsum(weighing)
    mean = math.fsum(w * x for w, x in zip(weighing, values, strict=True)) / total
    keys: Sequence[Hashable] = range(len(values)) if groups is None else groups
    parts: dict[Hashable, list[float]] = {}
    for key, weight, value in zip(keys, weighing, values, strict=True):
        parts.setdefault(key, []).append(weight * (value - mean))
    units = len(parts)
    if units < 2:
        return Spread(mean, 0.0, units)
    squares = math.fsum(math.fsum(part) ** 2 for part in parts.values())
    error = math.sqrt(units / (units - 1) * squares) / total
    return Spread(mean, error if error > 1e-12 else 0.0, units)


def mean_interval(
    scores: Sequence[float],
    groups: Sequence[Hashable] | None = None,
    weights: Sequence[float] | None = None,
    *,
    graded: bool = False,
) -> Estimate:
    """Return the mean of cases and where it would lie for other cases of this kind.

    Plain 0/1 scores get Wilson's interval, unless they are `graded` scores that happen to be whole. Others get it with
    the effective number of cases that gives the same standard error, shrunk for the few degrees of freedom; near 0 and
    1, where a standard error says little, the number of units is the most that counts.
    """
    found = spread(scores, groups, weights)
    mean, units = found.mean, found.units
    if units < 2:
        return Estimate(mean, None, units)
    if groups is None and weights is None and not graded and all(score in (0, 1) for score in scores):
        return Estimate(mean, wilson(mean, units), units)
    variance = mean * (1 - mean)
    effective = variance / found.error**2 if found.error > 0 and variance > 0 else float(units)
    if not 0.05 <= mean <= 0.95 and units * min(mean, 1 - mean) < 2:
        effective = min(effective, float(units))
    effective *= (Z / t_quantile(0.5 + LEVEL / 2, units - 1)) ** 2
    return Estimate(mean, wilson(mean, effective), units)


def repeat_interval(answers: Sequence[Sequence[float]]) -> Estimate:
    """Return the mean of cases and where it would lie if these cases were asked again.

    Args:
        answers: The scores of each case's answers. A case with fewer than two allows no interval.
    """
    means = [math.fsum(scores) / len(scores) for scores in answers]
    mean = math.fsum(means) / len(means)
    if any(len(scores) < 2 for scores in answers):
        return Estimate(mean, None, len(answers))
    variances = [_variance(scores) for scores in answers]
    terms = (variance / len(scores) for variance, scores in zip(variances, answers, strict=True))
    squared_error = math.fsum(terms) / len(answers) ** 2
    count = sum(len(scores) for scores in answers)
    spare = mean * (1 - mean)
    effective = spare / squared_error if squared_error > 1e-24 and spare > 0 else float(count)
    effective *= (Z / t_quantile(0.5 + LEVEL / 2, count - len(answers))) ** 2
    return Estimate(mean, wilson(mean, effective), len(answers))


def _variance(scores: Sequence[float]) -> float:
    mean = math.fsum(scores) / len(scores)
    return math.fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1)
