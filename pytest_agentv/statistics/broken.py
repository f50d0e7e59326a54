"""Finds the single cases that broke against the baseline, among all that were compared."""

import math
from collections.abc import Sequence
from typing import Final

MOST_FALSE: Final = 0.10
"""The share of false alarms that is accepted among the cases called broken."""
SUSPECT: Final = 0.05
"""The p value at which a case is asked again before it may be called broken."""
LEAST_ANSWERS: Final = 4
"""The least number of answers on both sides to call a case broken without confirmation."""
SURE_ANSWERS: Final = 10
"""The least number of answers on both sides that needs no confirmation."""
MOST_FRESH: Final = 100
"""The most fresh answers of a suspect: as many as a case may have."""


def fisher_less(passes: int, judged: int, passes_before: int, judged_before: int) -> float:
    """Return the one-sided p value of "the pass rate is not lower than before". Source: Fisher 1935, exact."""
    total, all_passes = judged + judged_before, passes + passes_before
    lowest = max(0, all_passes - judged_before)
    ways = sum(
        math.comb(judged, count) * math.comb(judged_before, all_passes - count) for count in range(lowest, passes + 1)
    )
    return ways / math.comb(total, all_passes)


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return the q values, in the order given. Source: Benjamini and Hochberg 1995."""
    count = len(p_values)
    q_values, least = [0.0] * count, 1.0
    for rank, index in reversed(list(enumerate(_order(p_values), start=1))):
        least = min(least, p_values[index] * count / rank)
        q_values[index] = least
    return q_values


def answers_to_confirm(pairs: int, answers_before: int, wanted: int) -> int:
    """Return how many fresh answers a suspect gets: `wanted`, or more if so few could show nothing.

    A case that passed all its `answers_before` and fails all fresh ones has p = 1 / C(before + fresh, before), which
    must survive `benjamini_hochberg` over all pairs.

    0 stays 0: no confirmation. It also returns 0 if more than `MOST_FRESH` would be needed: against one answer of the
    baseline, no reasonable number of answers shows that a case broke.
    """
    if wanted == 0:
        return 0
    fresh = wanted
    while pairs / math.comb(answers_before + fresh, answers_before) > MOST_FALSE:
        fresh += 1
        if fresh > MOST_FRESH:
            return 0
    return fresh


def _order(p_values: Sequence[float]) -> list[int]:
    return sorted(range(len(p_values)), key=p_values.__getitem__)
