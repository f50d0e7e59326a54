"""Judges a case with several answers: its verdict, when that is certain, and its pass rate."""

import math
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

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

    Args:
        passes: Answers that passed.
        judged: Answers that were judged.
        stopped: The verdict that became certain with the last answer, so that no more were asked; None: all were.

    Source: Girshick, Mosteller and Savage 1946. Passes over answers would be wrong by up to 13.5 points.
    """
    if stopped is None or judged == 1:
        return passes / judged
    return (passes - 1) / (judged - 1) if stopped == "pass" else passes / (judged - 1)


def within_ranges(values: Sequence[float], ranges: Sequence[tuple[float, float]]) -> list[float]:
    """Return the values of some cases; if the mean of the ranges excludes their mean, as near as it comes to that.

    Args:
        values: The pass rates of the cases, as `pass_rate` estimates them.
        ranges: The lowest and the highest pass rate that all planned answers of each case can have.

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
