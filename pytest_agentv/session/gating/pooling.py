"""Makes a new baseline of an old one and a run, without counting an answer twice."""

from collections.abc import Collection, Sequence
from pathlib import Path

from pytest_agentv.loading.problems import Problem
from pytest_agentv.reporting.readers import iter_foreign
from pytest_agentv.reporting.verdicts.baseline import JUDGES, Baseline, baseline_of, mark_of
from pytest_agentv.reporting.verdicts.case_reading import case_of, result_fault
from pytest_agentv.reporting.verdicts.cases import JudgedCase, is_same_subject


def updated(old: Baseline, run: Baseline) -> Baseline:
    """Return a run as the baseline that replaces an old one. Counts replacements in which only the answers are new."""
    return run.replace(rolls=old.rolls + 1 if _is_same_system(old, run) else 1)


def pooled(old: Baseline, run: Baseline, skipped: Sequence[JudgedCase] = ()) -> Baseline:
    """Return a run with the answers of an old baseline added, where case, grading and target are the same.

    Answers that the old one has already, because the run was resumed, count once. `skipped` are cases of the old one
    that the run was not to ask: they stay.
    """
    known = {(case.name, case.target): case for case in old.cases}
    cases = [_pool(known.get((case.name, case.target)), case, old.answers) for case in run.cases]
    new = baseline_of([*cases, *skipped])
    # Unknown which old judge judged the skipped cases.
    judges = {name for text in (new.judge, old.judge if skipped else None) if text for name in text.split(JUDGES)}
    rolls = old.rolls if _is_same_system(old, run) else 1
    return new.replace(
        judge=JUDGES.join(sorted(judges)) or None, rolls=rolls, answers=tuple(sorted({*old.answers, *run.answers}))
    )


def half_added(cases: Sequence[JudgedCase], old: Baseline, resumed: Path) -> list[JudgedCase]:
    """Return the cases with new answers beside those of an earlier result that a baseline holds already."""
    marks = set(old.answers)
    carried = {(case.name, case.target): case for case in cases if "carried" in case.flags}
    if not carried:
        return []
    entries = (entry for entry in iter_foreign(resumed) if not isinstance(entry, Problem))
    earlier = (case_of(entry.value) for entry in entries if result_fault(entry.value) is None)
    added = {(case.name, case.target) for case in earlier if mark_of(case) in marks}
    return [case for key, case in carried.items() if key in added and mark_of(case) not in marks]


def _is_same_system(old: Baseline, run: Baseline) -> bool:
    """Whether target and cases are the same, as far as both baselines name them."""
    known = {(case.name, case.target): case for case in old.cases}
    both = [(known[key], case) for case in run.cases if (key := (case.name, case.target)) in known]
    hashes = (old.target, old.target_hash) == (run.target, run.target_hash)
    return hashes and bool(both) and all(is_same_answerer(one, other) for one, other in both)


def is_same_answerer(one: JudgedCase, other: JudgedCase) -> bool:
    return is_same_subject(one, other) and one.target_hash == other.target_hash


def _pool(old: JudgedCase | None, new: JudgedCase, marks: Collection[str]) -> JudgedCase:
    if old is None or not is_same_answerer(old, new):
        return new
    if mark_of(new) in marks:
        return new.replace(scores=old.scores, passes=old.passes)
    return new.replace(scores=old.scores + new.scores, passes=old.passes + new.passes)
