"""Pairs the cases of a run with those of a baseline, and finds those that broke."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import BaselineFigures
from pytest_agentv.reporting.verdicts.cases import JudgedCase, is_same_subject, values_of
from pytest_agentv.statistics.broken import (
    LEAST_ANSWERS,
    MOST_FALSE,
    SURE_ANSWERS,
    SUSPECT,
    benjamini_hochberg,
    fisher_less,
)
from pytest_agentv.statistics.planning import NO_DROP

State: TypeAlias = Literal["compared", "new", "changed", "error", "gone", "skipped"]
_Key: TypeAlias = Callable[[JudgedCase], tuple[str | None, ...]]


@record
class Pair(Record):
    """A case with its counterpart on the other side."""

    new: JudgedCase
    old: JudgedCase

    @property
    def sides(self) -> tuple[JudgedCase, JudgedCase]:
        """What is compared: the new and the old pass rate, or mean scores where a threshold is not known."""
        if self.new.threshold is None or self.old.threshold is None:
            return self.new.replace(threshold=None), self.old.replace(threshold=None)
        return self.new, self.old

    @property
    def is_suspect(self) -> bool:
        """Whether the case looks broken and is to be asked again."""
        return not self.is_sure and self.p_seen <= SUSPECT

    @property
    def is_confirmed(self) -> bool:
        """Whether fresh answers decide about the case.

        If some of them are missing, the others decide in two cases: even with only failures in the place of the missing
        ones, the case would not look broken; or they speak against the case at least as much as the answers of the run.
        So an outage never clears a case.
        """
        fresh = self.new.confirmation
        if fresh is None or fresh.judged == 0:
            return False
        return fresh.judged == fresh.asked or self._p_of(fresh.asked) > SUSPECT or self.p_fresh <= self.p_seen

    @property
    def may_break(self) -> bool:
        """Whether the fresh answers that are missing could still make the case look broken."""
        fresh = self.new.confirmation
        return fresh is not None and fresh.judged < fresh.asked and self._p_of(fresh.asked) <= SUSPECT

    @property
    def p_fresh(self) -> float:
        """The p value of the fresh answers; 1 without any."""
        fresh = self.new.confirmation
        return 1.0 if fresh is None else self._p_of(fresh.judged)

    def _p_of(self, judged: int) -> float:
        """Return the p value of the passes among the fresh answers, if this many had been judged."""
        fresh = self.new.confirmation
        passes = 0 if fresh is None else fresh.passes
        return fisher_less(passes, judged, self.old.passes, self.old.judged)

    @property
    def is_sure(self) -> bool:
        """Whether both sides have enough answers to decide without confirmation."""
        return min(self.new.judged, self.old.judged) >= SURE_ANSWERS

    @property
    def p_seen(self) -> float:
        """The p value of the run's own answers, before any confirmation."""
        if self.new.threshold is None or self.old.threshold is None:
            return 1.0
        return fisher_less(self.new.passes, self.new.judged, self.old.passes, self.old.judged)


@record
class Pairing(Record):
    """The cases of a run and of a baseline, matched."""

    pairs: tuple[Pair, ...] = ()
    changed: tuple[JudgedCase, ...] = ()
    """Cases whose text, grading or threshold changed. They are not compared."""
    new: tuple[JudgedCase, ...] = ()
    gone: tuple[JudgedCase, ...] = ()
    skipped: tuple[JudgedCase, ...] = ()
    """Cases of the baseline whose items a mark skipped."""
    errors: tuple[Pair, ...] = ()
    """Cases that one of the two runs could not judge."""


@record
class CaseComparison(Record):
    """The change of a case against the baseline, for `verdict.json` and `agentv compare`."""

    case: str
    state: State
    target: str | None = None
    passes: int | None = None
    """Passing answers of the baseline."""
    judged: int | None = None
    delta: float | None = None
    p: float | None = None
    """Of "the pass rate is not lower", one-sided."""
    q: float | None = None
    """The same, corrected for all cases that were compared."""
    broke: bool = False

    @property
    def figures(self) -> BaselineFigures:
        """The figures for the case's line in the results file."""
        return BaselineFigures(self.passes, self.judged, self.delta, self.p, self.q, self.broke, self.state)


def exact_key(case: JudgedCase) -> tuple[str | None, ...]:
    """Return the key by which a baseline in git matches cases: file, id and target."""
    return case.key


def shared_key(first: Iterable[JudgedCase], second: Iterable[JudgedCase]) -> _Key:
    """Return the key by which the cases of two results files match.

    The eval file counts if both have it. The target counts only if a file has several for one case, so that runs of two
    targets can be compared.
    """
    sides = [list(first), list(second)]
    by_file = all(any(case.eval_file for case in side) for side in sides)
    by_item = all(case.node_id for side in sides for case in side)

    def name(case: JudgedCase) -> tuple[str | None, ...]:
        return (case.key[0] if by_item else case.name,) if by_file else (case.eval_id,)

    if any(max(Counter(map(name, side)).values(), default=0) > 1 for side in sides):
        return lambda case: (*name(case), case.target)
    return name


def pair_cases(
    new: Sequence[JudgedCase],
    old: Sequence[JudgedCase],
    key: _Key = exact_key,
    skipped: Sequence[JudgedCase] = (),
) -> Pairing:
    """Match the cases of a run with those of a baseline, in the order of the run.

    `skipped` are cases of the baseline that the run skipped. They do not count as gone.
    """
    known = {key(case): case for case in old}
    found = {key(case) for case in new}
    both = [Pair(case, known[key(case)]) for case in new if key(case) in known]
    judged = [pair for pair in both if pair.new.scores and pair.old.scores]
    return Pairing(
        tuple(pair for pair in judged if is_same_subject(pair.new, pair.old)),
        tuple(pair.new for pair in judged if not is_same_subject(pair.new, pair.old)),
        tuple(case for case in new if key(case) not in known),
        tuple(case for case in old if key(case) not in found and case not in skipped),
        tuple(skipped),
        tuple(pair for pair in both if not (pair.new.scores and pair.old.scores)),
    )


def deltas_of(pairs: Sequence[Pair]) -> list[float]:
    """Return the changes of the pass rates of some pairs: 0 for rounding. Each side has the values of these cases."""
    sides = [pair.sides for pair in pairs]
    new, old = (values_of([side[index] for side in sides]) for index in (0, 1))
    changes = (now - before for now, before in zip(new, old, strict=True))
    return [0.0 if abs(change) <= NO_DROP else change for change in changes]


def unconfirmed(pairing: Pairing, cases: Sequence[CaseComparison]) -> tuple[Pair, ...]:
    """Return the suspects that could not be asked again, or that have too few fresh answers.

    Among many cases, a few fresh answers tell nothing even if all of them fail. `cases` are those of `compare_cases`.
    """
    found = zip(pairing.pairs, cases, strict=False)  # the compared ones come first
    return tuple(
        pair
        for pair, case in found
        if pair.is_suspect and (not pair.is_confirmed or (pair.may_break and not case.broke))
    )


def compare_cases(pairing: Pairing, *, is_confirming: bool) -> tuple[CaseComparison, ...]:
    """Compare each case with the baseline. With `is_confirming`, suspects get fresh answers, and only they can break.

    A suspect that could not be asked again is judged by the answers of the run. It must not pass just for that.
    """
    p_values = [_p_value(pair, is_confirming=is_confirming) for pair in pairing.pairs]
    q_values = benjamini_hochberg(p_values)
    compared = [
        _comparison(pair, "compared").replace(delta=delta, p=p, q=q, broke=q <= MOST_FALSE and p < 1 and delta < 0)
        for pair, delta, p, q in zip(pairing.pairs, deltas_of(pairing.pairs), p_values, q_values, strict=True)
    ]
    others: Mapping[State, Sequence[JudgedCase]] = {
        "changed": pairing.changed,
        "new": pairing.new,
        "gone": pairing.gone,
        "skipped": pairing.skipped,
    }
    rest = [CaseComparison(case.name, state, case.target) for state, cases in others.items() for case in cases]
    return (*compared, *(_comparison(pair, "error") for pair in pairing.errors), *rest)


def not_compared(case: CaseComparison) -> CaseComparison:
    """Return a case without its comparison, for two runs that cannot be compared."""
    return case.replace(delta=None, p=None, q=None, broke=False)


def _p_value(pair: Pair, *, is_confirming: bool) -> float:
    """Return the p value of a pair.

    Benjamini-Hochberg needs the p values of all pairs. Over the suspects alone it would be wrong, because the baseline
    was selected for its luck.
    """
    if pair.is_sure:
        return pair.p_seen
    if pair.is_confirmed and pair.is_suspect:
        return pair.p_fresh
    is_cleared = is_confirming and not pair.is_suspect
    seen = 1.0 if is_cleared or min(pair.new.judged, pair.old.judged) < LEAST_ANSWERS else pair.p_seen
    return min(seen, pair.p_fresh) if pair.is_suspect else seen


def _comparison(pair: Pair, state: State) -> CaseComparison:
    old = pair.old
    return CaseComparison(pair.new.name, state, pair.new.target, old.passes, old.judged)
