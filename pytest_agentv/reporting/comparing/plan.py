"""Plans runs from the variances of an earlier run: how many cases and repeats show a drop."""

from collections import Counter
from collections.abc import Sequence

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.reporting.verdicts.cases import JudgedCase, groups_of
from pytest_agentv.reporting.verdicts.comparison import compare_runs
from pytest_agentv.reporting.verdicts.pairing import deltas_of, pair_cases, shared_key
from pytest_agentv.statistics.planning import (
    NO_DEVIATION,
    cases_to_see,
    most_within,
    variance_between,
    variance_within,
)


@record
class Plan(Record):
    """The variances that a run showed, and the drop that later runs should show."""

    cases: int
    """Judged cases."""
    answers: int
    """Answers of most cases, at most: an early stop asks for fewer."""
    drop: float
    within: float
    """Variance of the answers of one case."""
    between: float
    """Variance of the true differences between two runs: of cases, or of groups of cases."""
    remarks: tuple[str, ...]
    """Where the variances come from."""
    size: float = 1.0
    """Cases per group; 1: no two cases share one."""

    def cases_for(self, repeats: int) -> int:
        """Return how many cases show the drop with so many answers per case."""
        return cases_to_see(self.drop, self.within, self.between, repeats, self.size)


@record
class _Changes(Record):
    """How far cases changed between two runs."""

    deviation: float
    """Standard deviation of the units' differences."""
    repeats: int
    """Answers per case, at least."""
    size: float
    """Cases per unit."""
    most_within: float
    """Upper bound of the variance of the answers of one case, if each has one."""


def plan_of(cases: Sequence[JudgedCase], earlier: Sequence[JudgedCase] | None, drop: float) -> Plan:
    """Return the plan from a run and, if given, another run of the same cases."""
    judged = [case for case in cases if case.scores]
    answers = Counter(case.asked for case in judged).most_common(1)
    changes = None if earlier is None else _changes(judged, earlier)
    within, source = _within(judged, changes)
    size = _group_size(judged) if changes is None else changes.size
    units = "groups of cases" if size > 1 else "single cases"
    remarks: tuple[str, ...] = (f"Cases in groups: {size:.3g} a group, as now.",) if size > 1 else ()
    if within <= NO_DEVIATION and not (changes and changes.deviation):
        # All cases would have to be sure to lose as much: an assumption that leaves no chance at all.
        source = "All answers of a case went the same way, so chance is not known: that takes more cases."
        return Plan(len(judged), answers[0][0] if answers else 0, drop, 0.0, 0.0, (source, *remarks), size)
    if changes is None:
        between = drop**2
        other = f"How far {units} change is not known: {drop * 100:g} points are assumed (--against=FILE tells)."
    else:
        between = variance_between(changes.deviation, within, changes.repeats, size)
        other = f"How far {units} change is that between the two runs."
    remarks = (source, other, *remarks)
    return Plan(len(judged), answers[0][0] if answers else 0, drop, within, between, remarks, size)


def _within(cases: Sequence[JudgedCase], changes: _Changes | None) -> tuple[float, str]:
    """Return the variance of the answers of one case, and where it comes from."""
    within = variance_within(case.variance for case in cases)
    if within is not None:
        return within, "The variance within cases is that of their answers."
    bound = "One answer per case: the variance within cases is an upper bound"
    if changes is not None:
        return changes.most_within, f"{bound}, half of that of the differences."
    rates = [case.value for case in cases]
    rate = sum(rates) / len(rates) if rates else 0.5
    return rate * (1 - rate), f"{bound}, as if all cases were alike."


def _group_size(cases: Sequence[JudgedCase]) -> float:
    """Return how many cases a group has on average; 1 if no two cases share one."""
    groups = groups_of(cases)
    return 1.0 if groups is None else len(groups) / len(set(groups))


def _changes(cases: Sequence[JudgedCase], earlier: Sequence[JudgedCase]) -> _Changes | None:
    """Return how far cases changed between two runs; None with fewer than two units."""
    pairing = pair_cases(cases, earlier, shared_key(cases, earlier))
    difference = compare_runs(cases, earlier, pairing=pairing).difference
    if difference is None or difference.estimate.units < 2:
        return None
    pairs = pairing.pairs
    repeats = min(min(pair.new.judged, pair.old.judged) for pair in pairs)
    size = len(pairs) / difference.estimate.units
    at_most = most_within(deltas_of(pairs), difference.error, repeats, size)
    return _Changes(difference.error, repeats, size, at_most)
