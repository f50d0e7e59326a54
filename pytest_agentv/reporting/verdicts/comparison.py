"""Compares a run with an earlier one."""

import math
from collections.abc import Sequence
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.options.defaults import DEFAULT_MARGIN
from pytest_agentv.models.records import record
from pytest_agentv.reporting.verdicts.baseline import Baseline
from pytest_agentv.reporting.verdicts.cases import JudgedCase, groups_of, is_graded, values_of
from pytest_agentv.reporting.verdicts.pairing import (
    CaseComparison,
    Pair,
    Pairing,
    compare_cases,
    deltas_of,
    pair_cases,
    unconfirmed,
)
from pytest_agentv.statistics.pairs import Difference, compare_pairs, decide_change
from pytest_agentv.statistics.planning import (
    NO_DROP,
    cases_to_see,
    drop_seen,
    most_within,
    variance_between,
    variance_within,
)

JUDGE_CHANGED: Final = "not comparable, the judge changed; write the baseline anew"


@record
class RunComparison(Record):
    """The comparison of a run with its baseline."""

    pairing: Pairing
    cases: tuple[CaseComparison, ...]
    change: str
    """`regressed`, `improved`, `not worse`, `cannot tell`; `stale` if no case matches."""
    difference: Difference | None
    worse: int
    better: int
    least_drop: float | None
    """The least drop that would be seen in 4 of 5 runs; None with fewer than two units."""
    cases_needed: int | None
    """Cases that it takes to see a drop of the margin, in groups of the same size as these."""
    margin: float
    judge_changed: bool = False
    baseline: Baseline | None = None
    baseline_name: str = ""
    unconfirmed: tuple[Pair, ...] = ()
    """Suspects that should have been asked again, but could not."""
    bounds_with_errors: tuple[float, float] | None = None
    """The difference if all that a run could not judge failed, and if it passed, whichever is lower and higher."""

    @property
    def resolution(self) -> str:
        """What the comparison could have seen. It always accompanies "cannot tell"."""
        if self.least_drop is None:
            return "one case, or one group of cases, tells nothing about a run"
        if self.least_drop >= 1:
            return "so few cases would hardly show any drop"
        return f"a drop of {self.least_drop * 100:.0f} points would be seen in 4 of 5 runs"

    @property
    def has_groups(self) -> bool:
        """Whether compared cases share a group."""
        return self.difference is not None and self.difference.estimate.units < len(self.pairing.pairs)

    @property
    def compared(self) -> tuple[tuple[Pair, CaseComparison], ...]:
        """The pairs with their comparisons, which come first among `cases`."""
        return tuple(zip(self.pairing.pairs, self.cases, strict=False))

    @property
    def broken(self) -> tuple[CaseComparison, ...]:
        return tuple(case for case in self.cases if case.broke)

    @property
    def broken_pairs(self) -> tuple[tuple[Pair, CaseComparison], ...]:
        return tuple((pair, case) for pair, case in self.compared if case.broke)


def compare_runs(
    new: Sequence[JudgedCase],
    old: Sequence[JudgedCase],
    *,
    margin: float = DEFAULT_MARGIN,
    is_confirming: bool | None = None,
    pairing: Pairing | None = None,
) -> RunComparison:
    """Compare a run with an earlier one.

    Args:
        new: The cases of the run.
        old: Those of the earlier run.
        margin: The drop that "not worse" excludes.
        is_confirming: Whether suspects get fresh answers; None: as the cases of the run show.
        pairing: How the cases match; None: by file, id and target.
    """
    if is_confirming is None:
        is_confirming = any(case.confirmation is not None for case in new)
    matched = pairing if pairing is not None else pair_cases(new, old)
    cases = compare_cases(matched, is_confirming=is_confirming)
    pairs = matched.pairs
    deltas = deltas_of(pairs)
    if not pairs:
        return RunComparison(matched, cases, "stale", None, 0, 0, None, None, margin)
    graded = is_graded([side for pair in pairs for side in (pair.new, pair.old)])
    difference = compare_pairs(deltas, groups_of([pair.new for pair in pairs]), graded=graded)
    return RunComparison(
        matched,
        cases,
        decide_change(difference, margin),
        difference,
        worse=sum(delta < 0 for delta in deltas),
        better=sum(delta > 0 for delta in deltas),
        least_drop=drop_seen(
            difference.error, difference.estimate.units, cases=len(pairs), answers=_answers_of_both(pairs)
        ),
        cases_needed=_cases_needed(pairs, deltas, difference, margin),
        margin=margin,
        unconfirmed=unconfirmed(matched, cases) if is_confirming else (),
        bounds_with_errors=_bounds_with_errors(matched, deltas),
    )


def _cases_needed(pairs: Sequence[Pair], deltas: Sequence[float], difference: Difference, drop: float) -> int | None:
    """Return how many cases tell a drop of that size, with as many answers per case as these runs have."""
    if difference.estimate.units < 2 or drop <= NO_DROP:
        return None
    repeats, size = _answers_of_both(pairs), len(pairs) / difference.estimate.units
    seen = variance_within(side.variance for pair in pairs for side in (pair.new, pair.old))
    # With one answer, the variance within cases is unknown.
    at_most = most_within(deltas, difference.error, repeats, size)
    within = seen if seen is not None and repeats > 1 else at_most
    return cases_to_see(drop, within, variance_between(difference.error, within, repeats, size), repeats, size)


def _answers_of_both(pairs: Sequence[Pair]) -> int:
    """Return how many answers each case has at least, on both sides."""
    return min(min(pair.new.judged, pair.old.judged) for pair in pairs)


def _bounds_with_errors(pairing: Pairing, deltas: Sequence[float]) -> tuple[float, float] | None:
    """Return the bounds of the mean difference, if a missing judgement may count as anything from 0 to 1."""
    if not pairing.errors:
        return None
    new_ranges, old_ranges = (_ranges(side) for side in zip(*(pair.sides for pair in pairing.errors), strict=True))
    sides = list(zip(new_ranges, old_ranges, strict=True))
    count, seen = len(deltas) + len(sides), math.fsum(deltas)
    low = math.fsum(new[0] - old[1] for new, old in sides)
    high = math.fsum(new[1] - old[0] for new, old in sides)
    return (seen + low) / count, (seen + high) / count


def _ranges(cases: Sequence[JudgedCase]) -> list[tuple[float, float]]:
    """Return the lowest and the highest possible value of each case."""
    values = iter(values_of([case for case in cases if case.scores]))
    return [
        (value, value) if (value := next(values) if case.scores else None) is not None else (0.0, 1.0) for case in cases
    ]
