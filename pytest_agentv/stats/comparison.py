"""Compares a run with its baseline by the differences of the same cases, and plans how many cases show a drop.

The arguments of plans: `deviation` is the standard deviation of the differences of the units, which are groups of
cases, or cases; `size` is the number of cases of a unit; `within` is the variance of the answers of one case, `between`
that of the units' true differences; `repeats` is the number of answers per case in both runs; `drop` is the drop of the
mean to see.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from pytest_agentv.model.base import Record
from pytest_agentv.stats.intervals import (
    LEVEL,
    Z_POWER,
    Estimate,
    Interval,
    Z,
    needed_passes,
    spread,
    t_quantile,
    t_upper_tail,
    variance_of,
    wilson,
)

Change: TypeAlias = Literal["regressed", "improved", "not worse", "cannot tell"]

MOST_STATES: Final = 1_000_000
"""The most sums that the exact test computes: half a second and 100 MB. Beyond, Student's t test replaces it."""
_SCALE: Final = 1e9
"""Sums are rounded to billionths, so that equal sums of floats become one state."""
LEAST_DIFFERING: Final = 5
"""The least number of differing cases for a change of the mean."""

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

NO_DEVIATION: Final = 1e-12
"""A deviation or variance up to this value counts as none."""
NO_DROP: Final = 1e-9
"""A drop up to this value is none: rates that differ by no more are the same."""
_POWER: Final = 0.8
"""The power that belongs to `Z_POWER`."""


@dataclass(frozen=True, slots=True)
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
    differences: Sequence[float], groups: Sequence[Hashable] | None = None, *, graded: bool = False
) -> Difference:
    """Compare at least one pair; `differences` are new minus old.

    Differences of -1, 0 and 1 get Tango's interval, unless they are `graded` scores that happen to be whole.
    """
    found = spread(differences, groups)
    is_binary = groups is None and not graded and all(d in (-1, 0, 1) for d in differences)
    interval = None
    if found.units >= 2:
        if is_binary:
            wins, losses = sum(d == 1 for d in differences), sum(d == -1 for d in differences)
            interval = tango(wins, losses, len(differences))
        else:
            shrunk = Z * Z / (found.units + Z * Z)
            half = shrunk if found.error == 0 else t_quantile(0.5 + LEVEL / 2, found.units - 1) * found.error
            interval = Interval(max(-1.0, found.mean - half), min(1.0, found.mean + half))
    differing = sum(abs(d) > 1e-9 for d in differences)
    sums: defaultdict[Hashable, float] = defaultdict(float)
    for key, difference in zip(range(len(differences)) if groups is None else groups, differences, strict=True):
        sums[key] += difference
    p = None if found.units < 2 else sign_flip([*sums.values()])
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
    ascending = sorted(range(count), key=p_values.__getitem__)
    for rank, index in reversed(list(enumerate(ascending, start=1))):
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


def least_drop(deviation: float, units: int) -> float:
    """Return the least drop of the mean that would be seen in 4 of 5 runs."""
    return (t_quantile(0.5 + LEVEL / 2, units - 1) + Z_POWER) * deviation / math.sqrt(units)


def drop_seen(deviation: float, units: int, *, cases: int | None = None, answers: int = 1) -> float | None:
    """Return the least drop that would be seen in 4 of 5 runs; None with fewer than two units.

    Where no case differs there is no deviation to go by: the drop at which the score interval of no difference, which
    is z^2 / (C + z^2) wide on either side, would exclude 0. "No difference seen" in few cases shows little. In any case
    so many cases must differ as a change of the mean needs to be called one.
    """
    if units < 2:
        return None
    seen = Z * (Z + Z_POWER) / (units + Z * Z) if deviation <= NO_DEVIATION else least_drop(deviation, units)
    return min(1.0, max(seen, _drop_that_shows(units if cases is None else cases, answers)))


def cases_to_see(drop: float, within: float, between: float, repeats: int, size: float = 1.0) -> int:
    """Return how many cases show a drop: the units of `required_cases`, and so many that enough cases differ.

    Where neither variance, or hardly any, shows anything, the units are the inverse of `drop_seen`.
    """
    if within > NO_DEVIATION or between > NO_DEVIATION:
        units = required_cases(drop, within / size, between, repeats)
        if size > 1:  # some more where groups are few, so that `least_drop` agrees
            deviation = math.sqrt(between + 2 * within / (repeats * size))
            units = max(units, 2)
            while units < 1000 and least_drop(deviation, units) > drop:  # beyond, Student's t is as good as normal
                units += 1
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
    if cases * share > 100:  # fewer than `LEAST_DIFFERING` hardly ever differ then, and binomials would be too large
        return True
    fewer = math.fsum(
        math.comb(cases, count) * share**count * (1 - share) ** (cases - count) for count in range(LEAST_DIFFERING)
    )
    return fewer <= 1 - _POWER


def variance_between(deviation: float, within: float, repeats: int, size: float = 1.0) -> float:
    """Return the variance of the units' true differences, without the variance of random answers."""
    return max(0.0, deviation**2 - 2 * within / (repeats * size))


def most_within(differences: Sequence[float], deviation: float, repeats: int, size: float = 1.0) -> float:
    """Return the most that the variance of the answers of one case can be, for cases with one answer each.

    It is half the variance of the differences. That of the groups' differences is a second bound, because differences
    may cancel out in a group.
    """
    of_groups = deviation**2 * size
    return min([of_groups] if len(differences) < 2 else [of_groups, variance_of(differences)]) * repeats / 2


def required_cases(drop: float, within: float, between: float, repeats: int) -> int:
    """Return how many independent cases, or groups of cases, show a drop in 4 of 5 runs."""
    return math.ceil(((Z + Z_POWER) / drop) ** 2 * (between + 2 * within / repeats))


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


# How far a judge agrees with people's labels.

Weighting: TypeAlias = Literal["none", "linear", "quadratic"]

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
        return _share(self.both_pass, self.only_label)

    @property
    def false_positive_rate(self) -> tuple[float, Interval] | None:
        """The share of labelled fails that the judge passes; None without any."""
        return _share(self.only_judge, self.both_fail)


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


def _share(count: int, others: int) -> tuple[float, Interval] | None:
    of = count + others
    return (count / of, wilson(count / of, of)) if of else None


def kappa(first: Sequence[float], second: Sequence[float], weighting: Weighting = "none") -> float | None:
    """Return Cohen's kappa of two raters; None where both are constant. Source: Cohen 1960 and 1968.

    With weights, the distance of two ratings counts: their difference, or its square.
    """
    if not first or (len(set(first)) == 1 and len(set(second)) == 1):
        return None
    seen = math.fsum(_distance(a, b, weighting) for a, b in zip(first, second, strict=True)) / len(first)
    return 1.0 - seen / (_distances(Counter(first), Counter(second), weighting) / len(first) ** 2)


def kappa_interval(table: Confusion, seen: float | None) -> Interval:
    """Return where the kappa of other cases of this kind would lie.

    One case is added to each cell, as Agresti and Coull add some to a share. Without them, the standard error would be
    0 where all agree, and too small nearby. The interval holds `seen`, the kappa of the table.

    Source: Fleiss, Cohen and Everitt 1969.
    """
    counts = table.both_pass, table.only_judge, table.only_label, table.both_fail
    n = sum(counts) + 4
    a, b, c, d = ((count + 1) / n for count in counts)
    judge, label = a + b, a + c
    chance = judge * label + (1 - judge) * (1 - label)
    value = (a + d - chance) / (1 - chance)
    agreed = a * (1 - (judge + label) * (1 - value)) ** 2 + d * (1 - (2 - judge - label) * (1 - value)) ** 2
    differed = (1 - value) ** 2 * (b * (label + 1 - judge) ** 2 + c * (1 - label + judge) ** 2)
    variance = max(0.0, agreed + differed - (value - chance * (1 - value)) ** 2)
    half = Z * math.sqrt(variance / n) / (1 - chance)
    high = value + half if seen is None else max(value + half, seen)
    return Interval(max(-1.0, value - half), min(1.0, high))


def best_threshold(scores: Sequence[float], labels: Sequence[bool]) -> float | None:
    """Return the threshold between two scores at which kappa is highest; None: all scores are the same.

    It is too good on the cases that it was chosen on. Only others tell how good it is.
    """
    between = [round((low + high) / 2, 9) for low, high in pairwise(sorted(set(scores)))]

    def worth(threshold: float) -> float:
        return kappa([float(score >= threshold) for score in scores], list(map(float, labels))) or 0.0

    return max(between, key=worth, default=None)


def _distances(first: Mapping[float, int], second: Mapping[float, int], weighting: Weighting) -> float:
    """Return the sum of the distances of all pairs of two counted lists of ratings."""
    return math.fsum(
        _distance(a, b, weighting) * count * other for a, count in first.items() for b, other in second.items()
    )


def _distance(a: float, b: float, weighting: Weighting) -> float:
    if weighting == "none":
        return float(a != b)
    return abs(a - b) if weighting == "linear" else (a - b) ** 2


def krippendorff_alpha(ratings: Sequence[Sequence[float | None]], weighting: Weighting = "none") -> float | None:
    """Return Krippendorff's alpha; None where all ratings are the same or none can be paired.

    `ratings` are those of each thing rated, None where a rater gave none. `quadratic` is for numbers, `none` for names.

    Source: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability".
    """
    units = [[value for value in unit if value is not None] for unit in ratings]
    units = [unit for unit in units if len(unit) > 1]
    totals = Counter(value for unit in units for value in unit)
    expected = _distances(totals, totals, weighting)
    if not expected:
        return None
    observed = math.fsum(_distances(Counter(unit), Counter(unit), weighting) / (len(unit) - 1) for unit in units)
    return 1.0 - (sum(totals.values()) - 1) * observed / expected


def corrected_rate(
    judge: Sequence[float], labels: Sequence[float], unlabelled: Sequence[float]
) -> CorrectedRate | None:
    """Return the pass rate of all cases, corrected by those that people labelled; None with too few labels.

    All are 0 or 1: the judge's verdicts of the labelled cases, their labels, and its verdicts of the other cases.

    Source: Angelopoulos, Duchi and Zrnic 2023, "PPI++".
    """
    least = min(sum(label == 0 for label in labels), sum(label == 1 for label in labels))
    if len(labels) < LEAST_LABELS or least < LEAST_OF_A_CLASS or len(unlabelled) < 2:
        return None
    n, more, verdicts = len(labels), len(unlabelled), [*judge, *unlabelled]
    spread_of_judge = _covariance(verdicts, verdicts)
    tuning = 0.0
    if spread_of_judge > 0:
        tuning = min(1.0, max(0.0, _covariance(labels, judge) / ((1 + n / more) * spread_of_judge)))
    rest = [label - tuning * verdict for label, verdict in zip(labels, judge, strict=True)]
    rate = tuning * math.fsum(unlabelled) / more + math.fsum(rest) / n
    half = Z * math.sqrt(tuning**2 * variance_of(unlabelled) / more + variance_of(rest) / n)
    rate, low, high = (min(1.0, max(0.0, value)) for value in (rate, rate - half, rate + half))
    return CorrectedRate(rate, Interval(low, high), tuning)


def _covariance(first: Sequence[float], second: Sequence[float]) -> float:
    a, b = math.fsum(first) / len(first), math.fsum(second) / len(second)
    return math.fsum((x - a) * (y - b) for x, y in zip(first, second, strict=True)) / (len(first) - 1)
