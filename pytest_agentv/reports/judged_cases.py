"""The cases of a run or of a baseline, as statistics need them, and their pairs."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Literal, NamedTuple, TypeAlias

from pytest_agentv.model.base import JsonObject, Record
from pytest_agentv.model.results import BaselineFigures, EvalResult, RepeatFigures
from pytest_agentv.reports.figures import on_one_line, visible, with_id
from pytest_agentv.stats.comparison import (
    LEAST_ANSWERS,
    MOST_FALSE,
    NO_DROP,
    SURE_ANSWERS,
    SUSPECT,
    benjamini_hochberg,
    fisher_less,
)
from pytest_agentv.stats.intervals import Verdict, answer_variance, pass_rate, variance_of, within_ranges

_LONGEST_NAME: Final = 40
_LONGEST_PLACE: Final = 60

CaseStatus: TypeAlias = Literal["pass", "fail", "error", "scored"]
"""`scored`: it has a score, and neither a threshold nor a verdict: nobody knows whether it passes."""


@dataclass(frozen=True, slots=True)
class JudgedCase(Record):
    """A result of a run, or a line of a baseline, with the scores of its answers."""

    name: str
    """`<eval file>::<id>`, or the names that the results have."""
    result: EvalResult
    """What it was read from. That of a baseline holds no texts."""
    scores: tuple[float, ...] = ()
    """The scores of the judged answers; empty if the case could not be judged."""
    passes: int = 0
    threshold: float | None = None
    """None: unknown, so that scores are compared instead of passes."""
    status: CaseStatus = "pass"
    asked: int = 1
    """Planned answers. An early stop asks for fewer."""
    stopped: Verdict | None = None
    """The verdict that the last answer made certain. It may be the last of the planned ones."""
    eval_id: str = ""
    eval_file: str | None = None
    node_id: str | None = None
    target: str | None = None
    flags: tuple[str, ...] = ()
    """Why the answers cannot be used by later runs: `cached`, `dry_run`, `reruns`."""

    @property
    def is_error(self) -> bool:
        """Whether it could not be judged."""
        return self.status == "error"

    @property
    def label(self) -> str:
        """Its name with its target: identifies it in links, and is the same in the next run."""
        return f"{self.name}@{self.target}" if self.target else self.name

    @property
    def key(self) -> tuple[str, str | None]:
        """The name by which two runs match, and the target. It does not depend on the other cases of a run.

        Tests may evaluate under one id, so the test counts.
        """
        is_of_test = self.node_id is not None and (self.eval_file or "").endswith(".py")
        return item_name(self) if is_of_test else self.name, self.target

    @property
    def judged(self) -> int:
        return len(self.scores)

    @property
    def confirmation(self) -> RepeatFigures | None:
        """Fresh answers, if the case looked broken."""
        return self.result.repeat and self.result.repeat.confirm

    @property
    def combination(self) -> str:
        return self.result.combination or ""

    @property
    def value(self) -> float:
        """The pass rate, or the mean score if the threshold is unknown. For several cases, see `values_of`."""
        if self.threshold is None:
            return math.fsum(self.scores) / len(self.scores)
        return pass_rate(self.passes, self.judged, self.stopped)

    @property
    def variance(self) -> float | None:
        """The variance of one answer, of its verdict or its score as for `value`; None: unknown."""
        if self.threshold is None:
            return variance_of(self.scores) if len(self.scores) > 1 else None
        return answer_variance(self.passes, self.judged, self.stopped) if self.scores else None


def is_same_subject(one: JudgedCase, other: JudgedCase) -> bool:
    """Whether two results are from one case with the same judgement. Unknown values count as the same."""
    pairs = (
        (one.result.case_hash, other.result.case_hash),
        (one.result.grading_hash, other.result.grading_hash),
        (one.threshold, other.threshold),
    )
    return all(a is None or b is None or a == b for a, b in pairs)


def unique_names(cases: Sequence[JudgedCase]) -> list[JudgedCase]:
    """Give cases of one file, id and target the names of their items."""
    counts: dict[tuple[str, str | None], int] = {}
    for case in cases:
        counts[case.name, case.target] = counts.get((case.name, case.target), 0) + 1
    return [case.replace(name=item_name(case)) if counts[case.name, case.target] > 1 else case for case in cases]


def item_name(case: JudgedCase) -> str:
    """Return the name of the item of a case, with the id of the case unless that is in it."""
    if case.node_id is None or case.node_id.endswith(f"::{case.eval_id}"):
        return case.node_id or case.name
    return f"{case.node_id}::{case.eval_id}"


class CaseNames:
    """Names for the cases of a run and of its baseline. Each name identifies one of them."""

    def __init__(self, cases: Iterable[JudgedCase]) -> None:
        self._targets: dict[str, set[str | None]] = defaultdict(set)
        self._files: dict[str, set[str | None]] = defaultdict(set)
        for case in cases:
            self._targets[case.name].add(case.target)
            self._files[_without_file(case)].add(case.eval_file)

    def of(self, case: JudgedCase) -> str:
        """Return `<eval file>::<id>`, with the target where cases of that name have several."""
        return f"{case.name} ({case.target})" if self._has_target(case) else case.name

    def short(self, case: JudgedCase, length: int = _LONGEST_NAME, mark: str = "...") -> str:
        """Return the id, cut to a length, with the file and the target where cases of that id differ in these."""
        name = _without_file(case)
        shown = on_one_line(visible(name), length, mark)
        if name != case.name and len(self._files[name]) > 1:
            shown = f"{_place(case.eval_file)}::{shown}"
        return f"{shown} ({_place(case.target)})" if self._has_target(case) else shown

    def _has_target(self, case: JudgedCase) -> bool:
        return case.target is not None and len(self._targets[case.name]) > 1


def _without_file(case: JudgedCase) -> str:
    return case.name.removeprefix(f"{case.eval_file}::")


def _place(text: str | None) -> str:
    return on_one_line(visible(text or ""), _LONGEST_PLACE, "…")


def groups_of(cases: Sequence[JudgedCase]) -> list[str] | None:
    """Return the group of each case; None if no two cases share one.

    A case without a group forms one with itself under other targets, because all of them answer the same question.
    """
    named = [(case.result.group or case.result.conversation_id, case.name) for case in cases]
    groups = [f"group {group}" if group else f"case {name}" for group, name in named]
    return groups if len(set(groups)) < len(groups) else None


def values_of(cases: Sequence[JudgedCase]) -> list[float]:
    """Return the values that judged cases have together: their mean is one that all planned answers could have."""
    values = [case.value for case in cases]
    possible = [(value, value) for value in values]
    for index, case in enumerate(cases):
        if case.threshold is not None and case.stopped is not None:
            planned = max(case.asked, case.judged)
            possible[index] = case.passes / planned, (planned - case.judged + case.passes) / planned
    return within_ranges(values, possible)


def measure_of(cases: Sequence[JudgedCase]) -> str:
    """Return what `values_of` are: pass rates, or scores if the threshold of an answer is unknown."""
    return "Pass rate" if all(case.threshold is not None for case in cases if case.scores) else "Mean score"


def is_graded(cases: Sequence[JudgedCase]) -> bool:
    """Whether cases have more values than 0 and 1: several answers each, or scores without a threshold."""
    return any(case.threshold is None or case.judged > 1 for case in cases)


_STOPS: Final[Mapping[str, Verdict]] = {"certain pass": "pass", "certain fail": "fail"}


def cases_of_run(results: Iterable[EvalResult]) -> list[JudgedCase]:
    """Return the cases of a run. Cases of the same name get the names of their items."""
    return unique_names(list(map(case_of, results)))


def case_of(result: EvalResult, *, has_status: bool = True) -> JudgedCase:
    """Return the case of a result. `has_status`: whether its file says if it passed, or holds a threshold."""
    repeat, name = result.repeat, f"{result.eval_file}::{result.eval_id}"
    flags = {"cached": result.cached or (repeat and repeat.cached), "dry_run": result.dry_run, "reruns": result.reruns}
    scores = (result.score,) if repeat is None else repeat.scores
    return JudgedCase(
        name if result.eval_file else result.node_id or result.eval_id,
        result,
        scores=() if result.status == "error" else scores,
        passes=repeat.passes if repeat else int(result.status == "pass" and has_status),
        threshold=result.threshold,
        status=result.status if has_status or result.status == "error" else "scored",
        asked=(repeat.planned or repeat.asked or len(scores) or 1) if repeat else 1,
        stopped=_STOPS.get((repeat and repeat.stopped) or ""),
        eval_id=result.eval_id,
        eval_file=result.eval_file,
        node_id=result.node_id,
        target=result.target or None,
        flags=tuple(flag for flag, value in flags.items() if value),
    )


# Pairs the cases of a run with those of a baseline, and finds those that broke.

State: TypeAlias = Literal["compared", "new", "changed", "error", "gone", "skipped"]
_Key: TypeAlias = Callable[[JudgedCase], tuple[str | None, ...]]


@dataclass(frozen=True, slots=True)
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
        return fresh.judged == fresh.asked or self.p_of(fresh.asked) > SUSPECT or self.p_fresh <= self.p_seen

    @property
    def p_fresh(self) -> float:
        """The p value of the fresh answers; 1 without any."""
        return 1.0 if self.new.confirmation is None else self.p_of(self.new.confirmation.judged)

    def p_of(self, judged: int) -> float:
        """Return the p value of the passes among the fresh answers, if this many had been judged."""
        passes = 0 if self.new.confirmation is None else self.new.confirmation.passes
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


@dataclass(frozen=True, slots=True)
class CaseComparison(Record):
    """The change of a case against the baseline."""

    case: JudgedCase
    """The case of the run, or that of the baseline if the run has none."""
    figures: BaselineFigures
    """As the case's line in the results file has them."""
    pair: Pair | None = None
    """Both sides; None: only one of them has the case."""

    def contract(self) -> JsonObject:
        """Return the case as `verdict.json` and `agentv compare` have it."""
        own = {"case": self.case.name, "state": self.figures.state, "target": self.case.target}
        return {key: value for key, value in own.items() if value is not None} | self.figures.to_plain()


class CaseKey(NamedTuple):
    """The names that identify a case in several results files; None: a name that these files do not need."""

    eval_id: str
    eval_file: str | None = None
    target: str | None = None
    node_id: str | None = None

    @property
    def label(self) -> str:
        """The name to show. A node id contains the file, and the id unless a Python test has several cases."""
        name = f"{self.eval_file}::{self.eval_id}" if self.eval_file else self.eval_id
        if self.node_id is not None:
            name = with_id(self.node_id, self.eval_file, self.eval_id)
        return f"{name} (target {self.target})" if self.target else name


def shared_key(*runs: Iterable[JudgedCase]) -> Callable[[JudgedCase], CaseKey]:
    """Return the key by which the cases of results files match: eval file, id, target and item, as far as needed.

    The file counts if all runs name files. Otherwise cases match by id; but cases of several files that share an id
    keep their files, so that they match none of a run that does not say which of them it means. Target and item count
    only where a run has several for one case, so that runs of two targets can be compared.
    """
    sides = [list(cases) for cases in runs]
    by_file = all(any(case.eval_file for case in side) for side in sides)
    files: dict[str, set[str | None]] = defaultdict(set)
    for side in () if by_file else sides:
        of_side: dict[str, set[str | None]] = defaultdict(set)
        for case in side:
            of_side[case.eval_id].add(case.eval_file)
        for eval_id, found in of_side.items():
            files[eval_id] |= found if len(found) > 1 else set()
    names: list[str] = []

    def key(case: JudgedCase) -> CaseKey:
        file = case.eval_file if by_file or files[case.eval_id] else None
        return CaseKey(case.eval_id, file, **{name: getattr(case, name) for name in names})

    def is_ambiguous(side: Iterable[JudgedCase], name: str) -> bool:
        found: dict[CaseKey, str | None] = {}
        return any(found.setdefault(key(case), getattr(case, name)) != getattr(case, name) for case in side)

    for name in ("target", "node_id"):
        names += [name] if any(is_ambiguous(side, name) for side in sides) else []
    return key


def pair_cases(
    new: Sequence[JudgedCase],
    old: Sequence[JudgedCase],
    key: _Key = attrgetter("key"),
    skipped: Sequence[JudgedCase] = (),
) -> list[CaseComparison]:
    """Match the cases of a run with those of a baseline, in the order of the run; no figures are compared yet.

    `skipped` are cases of the baseline that the run skipped. They do not count as gone.
    """
    known = {key(case): case for case in old}
    found = [_matched(case, known.get(key(case))) for case in new]
    there = set(map(key, new))
    lost = [case for case in old if key(case) not in there]
    found += [CaseComparison(each, BaselineFigures(state="skipped" if each in skipped else "gone")) for each in lost]
    return found


def _matched(case: JudgedCase, before: JudgedCase | None) -> CaseComparison:
    if before is None:
        return CaseComparison(case, BaselineFigures(state="new"))
    pair = Pair(case, before)
    if not (case.scores and before.scores):
        return CaseComparison(case, BaselineFigures(before.passes, before.judged, state="error"), pair)
    return CaseComparison(case, BaselineFigures(state="compared" if is_same_subject(case, before) else "changed"), pair)


def pairs_of(found: Iterable[CaseComparison], state: State = "compared") -> list[Pair]:
    """Return both sides of the cases in a state."""
    return [each.pair for each in found if each.figures.state == state and each.pair is not None]


def deltas_of(pairs: Sequence[Pair]) -> list[float]:
    """Return the changes of the pass rates of some pairs: 0 for rounding. Each side has the values of these cases."""
    sides = [pair.sides for pair in pairs]
    new, old = (values_of([side[index] for side in sides]) for index in (0, 1))
    changes = (now - before for now, before in zip(new, old, strict=True))
    return [0.0 if abs(change) <= NO_DROP else change for change in changes]


def unconfirmed(compared: Iterable[CaseComparison]) -> tuple[Pair, ...]:
    """Return the suspects that could not be asked again, or that have too few fresh answers.

    Among many cases, a few fresh answers tell nothing even if all of them fail: the missing ones could still make the
    case look broken.
    """
    found: list[Pair] = []
    for each in compared:
        pair, fresh = each.pair, each.case.confirmation
        if pair is not None and each.figures.state == "compared" and pair.is_suspect:
            is_open = fresh is not None and fresh.judged < fresh.asked and pair.p_of(fresh.asked) <= SUSPECT
            found += [pair] if not pair.is_confirmed or (is_open and not each.figures.broke) else []
    return tuple(found)


_ORDER: Final[tuple[State, ...]] = ("compared", "error", "changed", "new", "gone", "skipped")


def compare_cases(found: Sequence[CaseComparison], *, is_confirming: bool) -> tuple[CaseComparison, ...]:
    """Compare each case with the baseline. With `is_confirming`, suspects get fresh answers, and only they can break.

    A suspect that could not be asked again is judged by the answers of the run. It must not pass just for that.
    """
    pairs = pairs_of(found)
    p_values = [_p_value(pair, is_confirming=is_confirming) for pair in pairs]
    figures = iter(
        BaselineFigures(pair.old.passes, pair.old.judged, delta, p, q, q <= MOST_FALSE and p < 1 and delta < 0)
        for pair, delta, p, q in zip(pairs, deltas_of(pairs), p_values, benjamini_hochberg(p_values), strict=True)
    )
    compared = [each.replace(figures=next(figures)) if each.figures.state == "compared" else each for each in found]
    return tuple(sorted(compared, key=lambda each: _ORDER.index(each.figures.state)))


def _p_value(pair: Pair, *, is_confirming: bool) -> float:
    # Of all pairs: over the suspects alone, Benjamini-Hochberg would be wrong, since luck selected the baseline.
    if pair.is_sure:
        return pair.p_seen
    if pair.is_confirmed and pair.is_suspect:
        return pair.p_fresh
    is_cleared = is_confirming and not pair.is_suspect
    seen = 1.0 if is_cleared or min(pair.new.judged, pair.old.judged) < LEAST_ANSWERS else pair.p_seen
    return min(seen, pair.p_fresh) if pair.is_suspect else seen
