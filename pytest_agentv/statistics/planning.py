"""Plans how many cases and repeats it takes to see a drop."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from pytest_agentv.statistics.distributions import LEVEL, Z_POWER, Z, t_quantile
from pytest_agentv.statistics.pairs import LEAST_DIFFERING
from pytest_agentv.statistics.repeats import needed_passes

NO_DEVIATION: Final = 1e-12
"""A deviation or variance up to this value counts as none."""
NO_DROP: Final = 1e-9
"""A drop up to this value is none: rates that differ by no more are the same."""
_CERTAINLY: Final = 100
"""If so many cases differ on average, fewer than `LEAST_DIFFERING` hardly ever do. Binomials would be too large."""
_MANY_GROUPS: Final = 1000
"""From so many groups on, the quantiles of Student's t are those of the normal distribution."""
_POWER: Final = 0.8
"""The power that belongs to `Z_POWER`."""


def least_drop(deviation: float, units: int) -> float:
    """Return the least drop of the mean that would be seen in 4 of 5 runs.

    Args:
        deviation: Standard deviation of the units' differences.
        units: Independent units, at least 2.
    """
    return (t_quantile(0.5 + LEVEL / 2, units - 1) + Z_POWER) * deviation / math.sqrt(units)


def drop_seen(deviation: float, units: int, *, cases: int | None = None, answers: int = 1) -> float | None:
    """Return the least drop that would be seen in 4 of 5 runs; None with fewer than two units.

    Where no case differs there is no deviation to go by: the drop at which the score interval of no difference, which
    is z^2 / (C + z^2) wide on either side, would exclude 0. "No difference seen" in few cases shows little. In any case
    so many cases must differ as a change of the mean needs to be called one.

    Args:
        deviation: Standard deviation of the units' differences.
        units: Independent units.
        cases: Compared cases; None: as many as units.
        answers: Answers per case.
    """
    if units < 2:
        return None
    seen = Z * (Z + Z_POWER) / (units + Z * Z) if deviation <= NO_DEVIATION else least_drop(deviation, units)
    return min(1.0, max(seen, _drop_that_shows(units if cases is None else cases, answers)))


def cases_to_see(drop: float, within: float, between: float, repeats: int, size: float = 1.0) -> int:
    """Return how many cases show a drop: the units of `required_cases`, and so many that enough cases differ.

    Where neither variance, or hardly any, shows anything, the units are the inverse of `drop_seen`.

    Args:
        drop: The drop of the mean to see, above `NO_DROP`.
        within: Variance of the answers of one case.
        between: Variance of the units' true differences.
        repeats: Answers per case in both runs.
        size: Cases per unit; above 1 if cases form groups.
    """
    if within > NO_DEVIATION or between > NO_DEVIATION:
        units = required_cases(drop, within / size, between, repeats)
        if size > 1:
            units = _enough_groups(drop, math.sqrt(between + 2 * within / (repeats * size)), units)
    else:
        units = math.ceil(Z * (Z + Z_POWER) / drop - Z * Z)
    needed = math.ceil(units * size)
    enough = max(needed, LEAST_DIFFERING)
    while not _shows(drop, enough, repeats):
        needed, enough = enough + 1, enough * 2
    while needed < enough:
        middle = (needed + enough) // 2
        needed, enough = (needed, middle) if _shows(drop, middle, repeats) else (middle + 1, enough)
    return enough


def _enough_groups(drop: float, deviation: float, units: int) -> int:
    """Return how many groups show a drop: some more where groups are few, so that `least_drop` agrees."""
    units = max(units, 2)
    while units < _MANY_GROUPS and least_drop(deviation, units) > drop:
        units += 1
    return units


def _drop_that_shows(cases: int, answers: int) -> float:
    """Return the least drop that can be called one, if all cases drop alike: then enough of them differ."""
    if cases < LEAST_DIFFERING:
        return 1.0
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (low, middle) if _shows(middle, cases, answers) else (middle, high)
    return high


def _shows(drop: float, cases: int, answers: int) -> bool:
    """Whether enough cases differ in 4 of 5 runs to call it a drop."""
    if cases < LEAST_DIFFERING:
        return False
    # The probability that a case differs: one answer is enough. The plain formula gives 0 for the least drops.
    share = 1.0 if drop >= 1 else -math.expm1(answers * math.log1p(-drop))
    if cases * share > _CERTAINLY:
        return True
    fewer = math.fsum(
        math.comb(cases, count) * share**count * (1 - share) ** (cases - count) for count in range(LEAST_DIFFERING)
    )
    return fewer <= 1 - _POWER


def variance_between(deviation: float, within: float, repeats: int, size: float = 1.0) -> float:
    """Return the variance of the units' true differences, without the variance of random answers.

    Args:
        deviation: Standard deviation of the units' differences.
        within: Variance of the answers of one case.
        repeats: Answers per case in both runs.
        size: Cases per unit.
    """
    return max(0.0, deviation**2 - 2 * within / (repeats * size))


def most_within(differences: Sequence[float], deviation: float, repeats: int, size: float = 1.0) -> float:
    """Return the most that the variance of the answers of one case can be, for cases with one answer each.

    It is half the variance of the differences. That of the groups' differences is a second bound, because differences
    may cancel out in a group.

    Args:
        differences: Of single cases.
        deviation: Standard deviation of the units' differences.
        repeats: Answers per case in both runs.
        size: Cases per unit.
    """
    single = variance_of(differences)
    of_groups = deviation**2 * size
    return (of_groups if single is None else min(single, of_groups)) * repeats / 2


def required_cases(drop: float, within: float, between: float, repeats: int) -> int:
    """Return how many independent cases, or groups of cases, show a drop in 4 of 5 runs.

    Args:
        drop: The drop of the mean to see, above 0.
        within: Variance of the answers of one case; in groups, divided by the cases of a group.
        between: Variance of the units' true differences.
        repeats: Answers per case in both runs.
    """
    return math.ceil(((Z + Z_POWER) / drop) ** 2 * (between + 2 * within / repeats))


def variance_of(scores: Sequence[float]) -> float | None:
    """Return the variance of the answers of one case; None with fewer than two."""
    if len(scores) < 2:
        return None
    mean = math.fsum(scores) / len(scores)
    return math.fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1)


def variance_within(variances: Iterable[float | None]) -> float | None:
    """Return the mean variance of the answers of one case; None if that of no case is known."""
    known = [variance for variance in variances if variance is not None]
    return math.fsum(known) / len(known) if known else None


def chance_of_red_case(reliability: float, answers: int, min_pass_rate: float, cases: int) -> float:
    """Return how likely at least one of some equal, independent cases fails, each answer passing with `reliability`."""
    needed = needed_passes(answers, min_pass_rate)
    passes = math.fsum(
        math.comb(answers, count) * reliability**count * (1 - reliability) ** (answers - count)
        for count in range(needed, answers + 1)
    )
    return 1.0 - min(1.0, passes) ** cases
