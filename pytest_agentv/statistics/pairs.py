"""Compares a run with its baseline by the differences of the same cases."""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.statistics.distributions import LEVEL, Z, t_quantile, t_upper_tail
from pytest_agentv.statistics.intervals import Estimate, Interval, spread

Change: TypeAlias = Literal["regressed", "improved", "not worse", "cannot tell"]

MOST_STATES: Final = 1_000_000
"""The most sums that the exact test computes: half a second and 100 MB. Beyond, Student's t test replaces it."""
LEAST_DIFFERING: Final = 5
"""The least number of differing cases for a change of the mean."""

_SCALE: Final = 1e9
"""Sums are rounded to billionths, so that equal sums of floats become one state."""


@record
class Difference(Record):
    """The difference between a run and its baseline."""

    estimate: Estimate
    """Mean of new minus old, -1 to 1."""
    differing: int
    """Cases whose score differs."""
    error: float
    """Standard deviation of the units' differences, for plans."""
    p_exact: float | None
    """One-sided sign-flip test of "not worse"; decides nothing. None with one unit."""


def compare_pairs(
    differences: Sequence[float],
    groups: Sequence[Hashable] | None = None,
    weights: Sequence[float] | None = None,
    *,
    graded: bool = False,
) -> Difference:
    """Compare at least one pair; `differences` are new minus old.

    Differences of -1, 0 and 1 get Tango's interval, unless they are `graded` scores that happen to be whole.
    """
    found = spread(differences, groups, weights)
    plain = groups is None and weights is None
    is_binary = plain and not graded and all(d in (-1, 0, 1) for d in differences)
    interval = None
    if found.units >= 2:
        if is_binary:
            wins, losses = sum(d == 1 for d in differences), sum(d == -1 for d in differences)
            interval = tango(wins, losses, len(differences))
        else:
            interval = _t_interval(found.mean, found.error, found.units)
    p = None if found.units < 2 else sign_flip(unit_sums(differences, groups, weights))
    differing = sum(abs(d) > 1e-9 for d in differences)
    return Difference(Estimate(found.mean, interval, found.units), differing, found.error * math.sqrt(found.units), p)


def decide_change(difference: Difference, margin: float) -> Change:
    """Return the verdict on a run against its baseline; `margin` is the drop that "not worse" excludes."""
    interval = difference.estimate.interval
    if interval is None:
        return "cannot tell"
    if difference.differing >= LEAST_DIFFERING:
        if interval.high < 0:
            return "regressed"
        if interval.low > 0:
            return "improved"
    return "not worse" if interval.low > -margin else "cannot tell"


def tango(wins: int, losses: int, n: int) -> Interval:
    """Return the score interval of (wins - losses) / n for n pairs of 0/1 outcomes. Source: Tango 1998."""
    difference = (wins - losses) / n
    low = -1.0 if losses == n else _tango_limit(wins, losses, n, -1.0, difference)
    high = 1.0 if wins == n else _tango_limit(wins, losses, n, 1.0, difference)
    return Interval(low, high)


def _tango_limit(wins: int, losses: int, n: int, outside: float, inside: float) -> float:
    """Bisect for the difference at which the score statistic reaches the normal quantile."""
    while abs(outside - inside) > 1e-12:
        middle = (outside + inside) / 2
        if _tango_statistic(wins, losses, n, middle) ** 2 > Z * Z:
            outside = middle
        else:
            inside = middle
    return (outside + inside) / 2


def _tango_statistic(wins: int, losses: int, n: int, delta: float) -> float:
    b = -wins - losses + (2 * n - wins + losses) * delta
    c = -losses * delta * (1 - delta)
    root = (math.sqrt(max(0.0, b * b - 8 * n * c)) - b) / (4 * n)
    variance = n * (2 * root + delta * (1 - delta))
    gap = wins - losses - n * delta
    if variance <= 0:
        return 0.0 if abs(gap) < 1e-12 else math.inf
    return gap / math.sqrt(variance)


def _t_interval(mean: float, error: float, units: int) -> Interval:
    half = Z * Z / (units + Z * Z) if error == 0 else t_quantile(0.5 + LEVEL / 2, units - 1) * error
    return Interval(max(-1.0, mean - half), min(1.0, mean + half))


def unit_sums(
    differences: Sequence[float], groups: Sequence[Hashable] | None, weights: Sequence[float] | None
) -> list[float]:
    """Return the weighted sum of the differences of each unit."""
    keys: Sequence[Hashable] = range(len(differences)) if groups is None else groups
    weighing = [1.0] * len(differences) if weights is None else weights
    sums: defaultdict[Hashable, list[float]] = defaultdict(list)
    for key, weight, difference in zip(keys, weighing, differences, strict=True):
        sums[key].append(weight * difference)
    return [math.fsum(parts) for parts in sums.values()]


def sign_flip(sums: Sequence[float]) -> float:
    """Return the one-sided p value of "the sum is not below 0" when each unit's sign is a coin's.

    Exact (Fisher 1935), equal to McNemar's exact test for 0/1 outcomes; with more than `MOST_STATES` sums,
    and at least two units, the t test of the units' sums.
    """
    steps = [abs(round(value * _SCALE)) for value in sums]
    observed = sum(round(value * _SCALE) for value in sums)
    states: dict[int, int] = {0: 1}
    seen = 0
    for step in filter(None, steps):
        following: defaultdict[int, int] = defaultdict(int)
        for total, ways in states.items():
            following[total + step] += ways
            following[total - step] += ways
        seen += len(following)
        if seen > MOST_STATES:
            return t_test_below(sums)
        states = following
    flips = sum(1 for step in steps if step)
    # Thirds do not add up in billionths: each step may be off by half of one, in either sum.
    as_low = sum(ways for total, ways in states.items() if total <= observed + flips)
    return float(Fraction(as_low, 2**flips))


def t_test_below(values: Sequence[float]) -> float:
    """Return the one-sided p value of Student's t test of "the mean is not below 0"."""
    found = spread(values)
    if found.error == 0:
        return 0.0 if found.mean < 0 else 1.0
    return 1.0 - t_upper_tail(found.mean / found.error, found.units - 1)
