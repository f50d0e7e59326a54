"""The baseline that runs are compared with, and how another run replaces it or adds to it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.reporting.verdicts.cases import JudgedCase, is_same_subject

FORMAT: Final = 1
"""The version of the file's format."""
_BETWEEN: Final = ", "
"""Between the names of judges."""


@record
class Baseline(Record):
    """The answers of an earlier run that later runs are compared with."""

    cases: tuple[JudgedCase, ...]
    repeat: int = 1
    """Answers per case, of most cases."""
    target: str | None = None
    """The target of all cases; None: there are several, and the cases name them."""
    target_hash: str | None = None
    judge: str | None = None
    """The judges' names with their hashes; None: no model judged."""
    rolls: int = 1
    """How often the baseline was replaced for the same cases and the same target."""
    runs: tuple[str, ...] = ()
    """The names of the runs whose answers it holds, as far as they are known."""
    sha256: str | None = None
    """The hash of the file that it was read from."""


def baseline_of(cases: Sequence[JudgedCase]) -> Baseline:
    """Return the baseline that a run's judged cases make."""
    judged = [case for case in cases if case.scores]
    targets = sorted({(case.target, case.target_hash) for case in judged}, key=str)
    target, target_hash = targets[0] if len(targets) == 1 else (None, None)
    repeat = Counter(case.judged for case in judged).most_common(1)
    return Baseline(
        tuple(sorted(judged, key=lambda case: (case.name, case.target or ""))),
        repeat=repeat[0][0] if repeat else 1,
        target=target,
        target_hash=target_hash,
        judge=judges_of(judged),
    )


def judges_of(cases: Iterable[JudgedCase]) -> str | None:
    """Return the names of the judges of cases; None: no model judged."""
    return _BETWEEN.join(sorted({case.judge for case in cases if case.judge is not None})) or None


def has_other_judge(cases: Sequence[JudgedCase], baseline: Baseline) -> bool:
    """Whether a case of a baseline has a judge that the baseline does not name."""
    known = {case.key[0] for case in baseline.cases}
    judges = {case.judge for case in cases if case.judge is not None and case.key[0] in known}
    return baseline.judge is not None and not judges <= set(baseline.judge.split(_BETWEEN))


def updated(old: Baseline, run: Baseline) -> Baseline:
    """Return a run as the baseline that replaces an old one. Counts replacements in which only the answers are new."""
    is_held = bool(run.runs) and set(run.runs) <= set(old.runs)
    return run.replace(rolls=old.rolls + (not is_held) if _is_same_system(old, run) else 1)


def pooled(old: Baseline, run: Baseline, skipped: Sequence[JudgedCase] = ()) -> Baseline:
    """Return a run with the answers of an old baseline added, where case, grading and target are the same.

    `skipped` are cases of the old one that the run was not to ask: they stay.
    """
    known = {case.key: case for case in old.cases}
    cases = [_pool(known.get(case.key), case) for case in run.cases]
    new = baseline_of([*cases, *skipped])
    # Unknown which old judge judged the skipped cases.
    judges = {name for text in (new.judge, old.judge if skipped else None) if text for name in text.split(_BETWEEN)}
    rolls = old.rolls if _is_same_system(old, run) else 1
    return new.replace(judge=_BETWEEN.join(sorted(judges)) or None, rolls=rolls, runs=(*old.runs, *run.runs))


def held_by(old: Baseline, cases: Sequence[JudgedCase], name: str) -> list[JudgedCase]:
    """Return the cases whose answers an old baseline of this name got before, and to which it would add its own."""
    marked = baseline_of([case for case in cases if case.in_baseline == name])
    both = zip(marked.cases, pooled(old, marked).cases, strict=True)
    return [case for case, added in both if added.judged > case.judged]


def left_out(
    now: Baseline, read: Baseline | None, cases: Sequence[JudgedCase], skipped: Sequence[JudgedCase] = ()
) -> list[JudgedCase]:
    """Return what came into a baseline after a run had read it, and would be lost if the run's cases were added."""
    before = {case.key: case for case in read.cases} if read is not None else {}
    stay = {case.key: case for case in (*cases, *skipped)}
    fresh = (case for case in now.cases if case != before.get(case.key))
    return [case for case in fresh if case.key not in stay or not _is_same_answerer(case, stay[case.key])]


def _is_same_system(old: Baseline, run: Baseline) -> bool:
    """Whether target and cases are the same, as far as both baselines name them."""
    known = {case.key: case for case in old.cases}
    both = [(known[case.key], case) for case in run.cases if case.key in known]
    hashes = (old.target, old.target_hash) == (run.target, run.target_hash)
    return hashes and bool(both) and all(_is_same_answerer(one, other) for one, other in both)


def _is_same_answerer(one: JudgedCase, other: JudgedCase) -> bool:
    return is_same_subject(one, other) and one.target_hash == other.target_hash


def _pool(old: JudgedCase | None, new: JudgedCase) -> JudgedCase:
    if old is None or not _is_same_answerer(old, new):
        return new
    return new.replace(scores=old.scores + new.scores, passes=old.passes + new.passes)
