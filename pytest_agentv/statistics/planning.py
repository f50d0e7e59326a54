"""How many cases and repeats it takes to see a drop."""

import math
from collections.abc import Sequence
from typing import Final

from pytest_agentv.statistics.distributions import LEVEL, Z_POWER, Z, t_quantile
from pytest_agentv.statistics.repeats import needed_passes

_NO_DEVIATION: Final = 1e-12


def least_drop(deviation: float, units: int) -> float:
    """Return the least drop of the mean that would be seen in 4 of 5 runs.

    Args:
        deviation: Standard deviation of the units' differences.
        units: Independent units, at least 2.
    """
    return (t_quantile(0.5 + LEVEL / 2, units - 1) + Z_POWER) * deviation / math.sqrt(units)


def drop_seen(deviation: float, units: int) -> float | None:
    """Return the least drop that would be seen in 4 of 5 runs; None with fewer than two units.

    Where no case differs there is no deviation to go by: the drop at which the score interval of no difference, which
    is z^2 / (C + z^2) wide on either side, would exclude 0. "No difference seen" in few cases shows little.
    """
    if units < 2:
        return None
    if deviation > _NO_DEVIATION:
        return min(1.0, least_drop(deviation, units))
    return min(1.0, Z * (Z + Z_POWER) / (units + Z * Z))


def cases_to_see(drop: float, within: float, between: float, repeats: int) -> int:
    """Return `required_cases`, or the inverse of `drop_seen` where neither variance shows anything."""
    if within > _NO_DEVIATION or between > _NO_DEVIATION:
        return required_cases(drop, within, between, repeats)
    return max(2, math.ceil(Z * (Z + Z_POWER) / drop - Z * Z))


def variance_between(deviation: float, within: float, repeats: int) -> float:
    """Return the variance of the cases' true differences, of which answers at random are no part."""
    return max(0.0, deviation**2 - 2 * within / repeats)


def required_cases(drop: float, within: float, between: float, repeats: int) -> int:
    """Return how many cases tell a drop in 4 of 5 runs.

    Args:
        drop: The drop of the mean to see, above 0.
        within: Variance of the answers of one case.
        between: Variance of the cases' true differences.
        repeats: Answers per case in both runs.
    """
    return math.ceil(((Z + Z_POWER) / drop) ** 2 * (between + 2 * within / repeats))


def variance_within(answers: Sequence[Sequence[float]]) -> float | None:
    """Return the mean variance of the answers of one case; None where no case has two answers."""
    variances = []
    for scores in answers:
        if len(scores) > 1:
            mean = math.fsum(scores) / len(scores)
            variances.append(math.fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1))
    return math.fsum(variances) / len(variances) if variances else None


def chance_of_red_case(reliability: float, answers: int, min_pass_rate: float, cases: int) -> float:
    """Return how likely at least one of some equal, independent cases fails, each answer passing with `reliability`."""
    needed = needed_passes(answers, min_pass_rate)
    passes = math.fsum(
        math.comb(answers, count) * reliability**count * (1 - reliability) ** (answers - count)
        for count in range(needed, answers + 1)
    )
    return 1.0 - min(1.0, passes) ** cases
