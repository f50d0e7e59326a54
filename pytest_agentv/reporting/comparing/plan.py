"""Plans runs from the variances of an earlier run: how many cases and repeats show a drop."""

from collections import Counter
from collections.abc import Sequence

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.reporting.verdicts.comparison import compare_runs
from pytest_agentv.reporting.verdicts.pairing import pair_cases, shared_key
from pytest_agentv.statistics.planning import NO_DEVIATION, cases_to_see, variance_between, variance_within


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
    """Variance of the cases' true differences between two runs."""
    remarks: tuple[str, ...]
    """Where the variances come from."""

    def cases_for(self, repeats: int) -> int:
        """Return how many cases show the drop with so many answers per case."""
        return cases_to_see(self.drop, self.within, self.between, repeats)


def plan_of(cases: Sequence[JudgedCase], earlier: Sequence[JudgedCase] | None, drop: float) -> Plan:
    """Return the plan from a run and, if given, another run of the same cases."""
    judged = [case for case in cases if case.scores]
    answers = Counter(case.asked for case in judged).most_common(1)
    deviation, repeats = _deviation(judged, earlier)
    within, source = _within(judged, deviation, repeats)
    if within <= NO_DEVIATION and not deviation:
        # All cases would have to be sure to lose as much: an assumption that leaves no chance at all.
        source = "All answers of a case went the same way, so chance is not known: that takes more cases."
        return Plan(len(judged), answers[0][0] if answers else 0, drop, 0.0, 0.0, (source,))
    between = drop**2 if deviation is None else variance_between(deviation, within, repeats)
    other = (
        f"How far single cases change is not known: {drop * 100:g} points are assumed (--against=FILE tells)."
        if deviation is None
        else "How far single cases change is that between the two runs."
    )
    return Plan(len(judged), answers[0][0] if answers else 0, drop, within, between, (source, other))


def _within(cases: Sequence[JudgedCase], deviation: float | None, repeats: int) -> tuple[float, str]:
    """Return the variance of the answers of one case, and where it comes from."""
    within = variance_within(case.variance for case in cases)
    if within is not None:
        return within, "The variance within cases is that of their answers."
    bound = "One answer per case: the variance within cases is an upper bound"
    if deviation is not None:
        return deviation**2 * repeats / 2, f"{bound}, half of that of the differences."
    rates = [case.value for case in cases]
    rate = sum(rates) / len(rates) if rates else 0.5
    return rate * (1 - rate), f"{bound}, as if all cases were alike."


def _deviation(cases: Sequence[JudgedCase], earlier: Sequence[JudgedCase] | None) -> tuple[float | None, int]:
    """Return the standard deviation of the differences of two runs, and the answers per case behind it."""
    if earlier is None:
        return None, 1
    pairing = pair_cases(cases, earlier, shared_key(cases, earlier))
    difference = compare_runs(cases, earlier, pairing=pairing).difference
    if difference is None or difference.estimate.units < 2:
        return None, 1
    return difference.error, min(min(pair.new.judged, pair.old.judged) for pair in pairing.pairs)
