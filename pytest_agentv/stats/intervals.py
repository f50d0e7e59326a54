"""Intervals of shares and means, and the verdict on a case with several answers."""

import functools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal, TypeAlias

from pytest_agentv.model.base import Record

LEVEL: Final = 0.95
"""The confidence level of all intervals."""
Z: Final = NormalDist().inv_cdf(0.5 + LEVEL / 2)
"""Two-sided normal quantile at `LEVEL`, 1.95996."""
Z_POWER: Final = NormalDist().inv_cdf(0.8)
"""Normal quantile of the power of 0.8: a drop is seen in 4 of 5 runs."""

_TINY: Final = 1e-300


@functools.lru_cache(maxsize=1024)
def t_quantile(probability: float, df: float) -> float:
    """Return the t value below which a share `probability` (0.5 to 1) lies, with `df` > 0 degrees of freedom.

    Bisection on the tail to the last bit of a float, so that no starting value matters.
    """
    tail = 1.0 - probability
    low, high = 0.0, 1.0
    while t_upper_tail(high, df) > tail:
        low, high = high, high * 2
    while (middle := (low + high) / 2) not in (low, high):
        if t_upper_tail(middle, df) > tail:
            low = middle
        else:
            high = middle
    return high


def t_upper_tail(t: float, df: float) -> float:
    """Return P(T > t). Source: Abramowitz and Stegun 26.7.1, through the incomplete beta function."""
    half = 0.5 * incomplete_beta(df / 2, 0.5, df / (df + t * t))
    return half if t >= 0 else 1.0 - half


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b). Source: Abramowitz and Stegun 26.5.8."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _continued_fraction(a, b, x) / a
    return 1.0 - front * _continued_fraction(b, a, 1 - x) / b


def _continued_fraction(a: float, b: float, x: float) -> float:
    """Evaluate the fraction of `incomplete_beta`. Source: Lentz 1976, as modified by Thompson and Barnett 1986."""
    c, d = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / _not_zero(1.0 + term * d)
            c = _not_zero(1.0 + term / c)
            result *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return result


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


@dataclass(frozen=True, slots=True)
class Interval(Record):
    """A range that holds the true value in 95 of 100 runs."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate(Record):
    """A mean with its interval, which is None with fewer than two independent units."""

    mean: float
    interval: Interval | None
    units: int
    """Independent units: groups of cases, or cases where none share a group."""


@dataclass(frozen=True, slots=True)
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


def unit_sums(values: Sequence[float], groups: Sequence[Hashable] | None) -> list[float]:
    """Return the sum of the values of each unit: a group of cases, or a case."""
    if groups is None:
        return list(values)
    parts: dict[Hashable, list[float]] = {}
    for key, value in zip(groups, values, strict=True):
        parts.setdefault(key, []).append(value)
    return [math.fsum(part) for part in parts.values()]


def spread(values: Sequence[float], groups: Sequence[Hashable] | None = None) -> Spread:
    """Return the mean of at least one value and its cluster-robust standard error.

    The factor C/(C - 1) corrects for the number of units C. Source: Liang and Zeger 1986, with the usual correction.
    """
    mean = math.fsum(values) / len(values)
    sums = unit_sums([value - mean for value in values], groups)
    units = len(sums)
    if units < 2:
        return Spread(mean, 0.0, units)
    error = math.sqrt(units / (units - 1) * math.fsum(each**2 for each in sums)) / len(values)
    return Spread(mean, error if error > 1e-12 else 0.0, units)


def mean_interval(
    scores: Sequence[float], groups: Sequence[Hashable] | None = None, *, graded: bool = False
) -> Estimate:
    """Return the mean of cases and where it would lie for other cases of this kind.

    Plain 0/1 scores get Wilson's interval, unless they are `graded` scores that happen to be whole. Others get it with
    the effective number of cases that gives the same standard error, shrunk for the few degrees of freedom; near 0 and
    1, where a standard error says little, the number of units is the most that counts.
    """
    found = spread(scores, groups)
    mean, units = found.mean, found.units
    if units < 2:
        return Estimate(mean, None, units)
    if groups is None and not graded and all(score in (0, 1) for score in scores):
        return Estimate(mean, wilson(mean, units), units)
    variance = mean * (1 - mean)
    effective = variance / found.error**2 if found.error > 0 and variance > 0 else float(units)
    if not 0.05 <= mean <= 0.95 and units * min(mean, 1 - mean) < 2:
        effective = min(effective, float(units))
    effective *= (Z / t_quantile(0.5 + LEVEL / 2, units - 1)) ** 2
    return Estimate(mean, wilson(mean, effective), units)


def repeat_interval(answers: Sequence[Sequence[float]]) -> Estimate:
    """Return the mean of cases, each with the scores of its answers, and where it would lie if they were asked again.

    A case with fewer than two answers allows no interval.
    """
    means = [math.fsum(scores) / len(scores) for scores in answers]
    mean = math.fsum(means) / len(means)
    if any(len(scores) < 2 for scores in answers):
        return Estimate(mean, None, len(answers))
    squared_error = math.fsum(variance_of(scores) / len(scores) for scores in answers) / len(answers) ** 2
    count = sum(len(scores) for scores in answers)
    spare = mean * (1 - mean)
    effective = spare / squared_error if squared_error > 1e-24 and spare > 0 else float(count)
    effective *= (Z / t_quantile(0.5 + LEVEL / 2, count - len(answers))) ** 2
    return Estimate(mean, wilson(mean, effective), len(answers))


def variance_of(scores: Sequence[float]) -> float:
    """Return the variance of at least two scores, with the divisor n - 1."""
    mean = math.fsum(scores) / len(scores)
    return math.fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1)


Verdict: TypeAlias = Literal["pass", "fail"]

_SLACK: Final = 1e-9
"""0.8 x 5 may come out a little above 4."""


def needed_passes(answers: int, min_pass_rate: float) -> int:
    """Return how many of a case's answers have to pass; at least one, unless the rate is 0."""
    least = 1 if min_pass_rate > 0 else 0
    return max(least, math.ceil(min_pass_rate * answers - _SLACK))


def verdict(passes: int, fails: int, answers: int, min_pass_rate: float) -> Verdict | None:
    """Return the verdict that no further answer can change; None while it is open.

    An answer that could not be had is neither a pass nor a fail.
    """
    needed = needed_passes(answers, min_pass_rate)
    if passes >= needed:
        return "pass"
    return "fail" if fails > answers - needed else None


def pass_rate(passes: int, judged: int, stopped: Verdict | None) -> float:
    """Return the unbiased pass rate of a case with at least one judged answer.

    `stopped` is the verdict that became certain with the last answer, so that no more were asked; None: all were.

    Source: Girshick, Mosteller and Savage 1946. Passes over answers would be wrong by up to 13.5 points.
    """
    if stopped is None or judged == 1:
        return passes / judged
    return (passes - 1) / (judged - 1) if stopped == "pass" else passes / (judged - 1)


def within_ranges(values: Sequence[float], ranges: Sequence[tuple[float, float]]) -> list[float]:
    """Return the values of some cases; if the mean of the ranges excludes their mean, as near as it comes to that.

    `values` are estimates of `pass_rate`, `ranges` the lowest and highest rates that all planned answers can have.

    The estimate assumes that any order of a case's answers is as likely. Where a mean cannot be, that is refuted, or it
    is bad luck. Then values move towards their ranges, all by the same share, and no further: cutting each of them
    off at its range would make runs of good answers look worse by up to 4 points.
    """
    total, slack = math.fsum(values), _SLACK * len(values)
    lowest, highest = (math.fsum(bounds) for bounds in zip(*ranges, strict=True)) if ranges else (0.0, 0.0)
    if total > highest + slack:
        bound, cut = highest, [min(value, high) for value, (_, high) in zip(values, ranges, strict=True)]
    elif total < lowest - slack:
        bound, cut = lowest, [max(value, low) for value, (low, _) in zip(values, ranges, strict=True)]
    else:
        return list(values)
    share = (total - bound) / (total - math.fsum(cut))
    return [value + share * (end - value) for value, end in zip(values, cut, strict=True)]


def answer_variance(passes: int, judged: int, stopped: Verdict | None) -> float | None:
    """Return the unbiased variance p (1 - p) of one answer of a case; None if its answers do not tell.

    The arguments are those of `pass_rate`. The variance is the chance that of the first two answers, one passes and one
    fails, in an order that does not end the case after the first. So it is the share of such orders among all orders
    of the answers that end the case with the last one.

    Source: Girshick, Mosteller and Savage 1946. The variance of the answers would be wrong by up to .48.
    """
    fails = judged - passes
    if stopped is None:
        return passes * fails / (judged * (judged - 1)) if judged > 1 else None
    if judged <= 2:
        return float(passes == fails)  # with one answer, no other one was possible
    ends, others = (passes, fails) if stopped == "pass" else (fails, passes)
    return (ends - 1) * others / ((judged - 1) * (judged - 2))


def pass_at(j: int, passes: int, judged: int) -> float | None:
    """Return the chance that at least one of j answers passes (pass@j); None with fewer than j answers.

    Source: Chen et al. 2021, unbiased.
    """
    return None if judged < j else 1.0 - math.comb(judged - passes, j) / math.comb(judged, j)


def pass_all(j: int, passes: int, judged: int) -> float | None:
    """Return the chance that all of j answers pass (pass^j); None with fewer than j. Source: Yao et al. 2024."""
    return None if judged < j else math.comb(passes, j) / math.comb(judged, j)


def is_flaky(passes: int, judged: int) -> bool:
    """Tell whether some answers of a case pass and some fail."""
    return 0 < passes < judged


def passing(scores: Sequence[float], threshold: float) -> int:
    """Return how many scores reach a threshold."""
    return sum(score >= threshold - _SLACK for score in scores)
