"""Compares the cases of a run with those of an earlier run."""

from collections.abc import Collection, Mapping
from typing import Final, Literal, TypeAlias

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.reporting.html.reading import Result, Run
from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.reporting.verdicts.comparison import RunComparison, compare_runs
from pytest_agentv.reporting.verdicts.pairing import CaseComparison, Pair, pair_cases, shared_key
from pytest_agentv.reporting.verdicts.run_statistics import (
    RunStatistics,
    compare_with_baseline,
    judge_run,
    run_statistics,
)

Word: TypeAlias = Literal["broken", "worse", "better", "same", "new", "changed", "error"]

_SAYS: Final[Mapping[Word, str]] = {
    "broken": "Broken",
    "worse": "Worse",
    "better": "Better",
    "same": "As before",
    "new": "New case",
    "changed": "Case changed",
    "error": "Not compared",
}


@record
class Change(Record):
    """How one case changed."""

    word: Word
    text: str
    """`baseline 5/5, now 0/5, asked again 0/10; unlikely to be chance (q 0.03)`."""
    short: str = ""
    """`5/5 → 0/5, again 0/10`."""
    delta: float | None = None
    before: Result | None = None
    """The earlier result; None: a baseline holds only scores, or the case is new."""

    @property
    def title(self) -> str:
        return _SAYS[self.word]


@record
class Compared(Record):
    """A run with its comparison."""

    statistics: RunStatistics
    changes: Mapping[str, Change]
    """By the key of the case."""
    base: Run | None = None

    @property
    def comparison(self) -> RunComparison | None:
        return self.statistics.comparison

    def count(self, *words: Word) -> int:
        return sum(change.word in words for change in self.changes.values())


def compare(
    run: Run,
    base: Run | None,
    *,
    margin: float,
    is_confirming: bool | None = None,
    skipped: Collection[tuple[str, str | None]] = (),
) -> Compared:
    """Compare a run in the same way as the gates.

    `is_confirming`: whether suspects were asked again; None: decide by the results. `skipped`: cases that the run
    skipped.
    """
    if base is None:
        return Compared(run_statistics(run.cases), {})
    confirming = is_confirming
    if confirming is None:
        confirming = any(case.confirmation is not None for case in run.cases)
    statistics = _statistics(run, base, margin, skipped, is_confirming=confirming)
    comparison = statistics.comparison
    assert comparison is not None
    pairs = {_name(pair.new): pair for pair in (*comparison.pairing.pairs, *comparison.pairing.errors)}
    before = {_name(result.case): result for result in base.results}
    by_name = {(each.case, each.target): each for each in comparison.cases if each.state not in ("gone", "skipped")}
    matched = _changed(run, base) if comparison.pairing.changed else {}
    changes: dict[str, Change] = {}
    for result in run.results:
        name = _name(result.case)
        if name in by_name:
            pair = pairs.get(name)
            old = pair.old if pair is not None else matched.get(name)
            earlier = before.get(_name(old)) if old is not None else None
            changes[result.key] = _change(by_name[name], pair, earlier)
    return Compared(statistics, changes, base)


def _statistics(
    run: Run, base: Run, margin: float, skipped: Collection[tuple[str, str | None]], *, is_confirming: bool
) -> RunStatistics:
    cases = run.cases
    found = {_name(case) for case in cases}
    left = [case for case in base.cases if _name(case) in skipped and _name(case) not in found]
    if base.baseline is not None:
        return compare_with_baseline(
            cases, base.baseline, base.name, skipped=left, margin=margin, is_confirming=is_confirming
        )
    pairing = pair_cases(cases, base.cases, shared_key(cases, base.cases), left)
    comparison = compare_runs(cases, base.cases, margin=margin, is_confirming=is_confirming, pairing=pairing)
    return judge_run(comparison.replace(baseline_name=base.name), cases)


def _changed(run: Run, base: Run) -> dict[tuple[str, str | None], JudgedCase]:
    """Return the earlier cases by the names of the current ones, even if they are not comparable."""
    key = shared_key(run.cases, base.cases)
    old = {key(case): case for case in base.cases}
    return {_name(case): old[key(case)] for case in run.cases if key(case) in old}


_NOT_COMPARED: Final[Mapping[str, Change]] = {
    "new": Change("new", "the baseline has no such case"),
    "changed": Change("changed", "its text, evaluators or threshold are others, so it is not compared"),
    "error": Change("error", "one of the two runs could not judge it"),
}


def _change(comparison: CaseComparison, pair: Pair | None, before: Result | None) -> Change:
    if (change := _NOT_COMPARED.get(comparison.state)) is not None:
        return change if comparison.state == "new" else change.replace(before=before)
    assert pair is not None
    delta = comparison.delta or 0.0
    word: Word = "broken" if comparison.broke else "worse" if delta < 0 else "better" if delta > 0 else "same"
    chance = {"broken": f"; unlikely to be chance (q {comparison.q or 0:.2g})", "same": ""}.get(word, "; may be chance")
    again = f"{pair.new.confirmation.passes}/{pair.new.confirmation.judged}" if pair.new.confirmation else ""
    old, new = _tally(pair.old), _tally(pair.new)
    asked, short = (f", asked again {again}", f", again {again}") if again else ("", "")
    return Change(word, f"baseline {old}, now {new}{asked}{chance}", f"{old} → {new}{short}", delta, before)


def _tally(case: JudgedCase) -> str:
    if case.threshold is None:
        return f"{case.value:.2f}"
    return f"{case.passes}/{case.judged}"


def _name(case: JudgedCase) -> tuple[str, str | None]:
    return case.name, case.target
