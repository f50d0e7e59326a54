"""The cases of a run or of a baseline, with the scores of their answers."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from pytest_agentv.models.base import LARGEST, Record
from pytest_agentv.models.records import record
from pytest_agentv.statistics.intervals import spread
from pytest_agentv.statistics.pairs import LEAST_DIFFERING
from pytest_agentv.statistics.planning import variance_of
from pytest_agentv.statistics.repeats import Verdict, answer_variance, pass_rate, within_ranges

_SLACK: Final = 1e-9


@record
class Confirmation(Record):
    """Fresh answers of a case that looked broken."""

    asked: int
    judged: int
    passes: int


@record
class JudgedCase(Record):
    """A case of a run or a baseline, with the scores of its answers."""

    name: str
    """`<eval file>::<id>`, or the names that the results have."""
    scores: tuple[float, ...] = ()
    """The scores of the judged answers; empty if the case could not be judged."""
    passes: int = 0
    threshold: float | None = None
    """None: unknown, so that scores are compared instead of passes."""
    is_error: bool = False
    asked: int = 1
    """Planned answers. An early stop asks for fewer."""
    stopped: Verdict | None = None
    """The verdict that the last answer made certain. It may be the last of the planned ones: see `is_cut_short`."""
    errors: int = 0
    """Answers that are missing or could not be judged."""
    eval_id: str = ""
    eval_file: str | None = None
    node_id: str | None = None
    target: str | None = None
    group: str | None = None
    """Cases of one group are not independent."""
    tags: tuple[str, ...] = ()
    required: bool = False
    case_hash: str | None = None
    grading_hash: str | None = None
    target_hash: str | None = None
    judge: str | None = None
    confirmation: Confirmation | None = None
    flags: tuple[str, ...] = ()
    """Why the answers cannot be used by later runs: `cached`, `dry_run`, `reruns`."""
    in_baseline: str | None = None
    """The name of the baseline that holds its answers already."""
    has_same_texts: bool | None = None
    """Whether all answers were the same text; None: unknown."""
    tools: tuple[tuple[str, ...], ...] | None = None
    """The tools that each judged answer called; None: unknown."""
    ended: datetime | None = None
    """When it ended, as far as a results file says so."""

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
    def is_cut_short(self) -> bool:
        """Whether fewer answers were asked than planned, because the verdict was certain."""
        return self.stopped is not None and self.judged + self.errors < self.asked

    @property
    def value(self) -> float:
        """The pass rate, or the mean score if the threshold is unknown. For several cases, see `values_of`."""
        if self.threshold is None:
            return math.fsum(self.scores) / len(self.scores)
        return pass_rate(self.passes, self.judged, self.stopped)

    @property
    def possible(self) -> tuple[float, float]:
        """The lowest and the highest pass rate that all planned answers can have; without a stop, only `value`."""
        if self.threshold is None or self.stopped is None:
            return self.value, self.value
        planned = max(self.asked, self.judged)
        return self.passes / planned, (planned - self.judged + self.passes) / planned

    @property
    def variance(self) -> float | None:
        """The variance of one answer, of its verdict or its score as for `value`; None: unknown."""
        if self.threshold is None:
            return variance_of(self.scores)
        return answer_variance(self.passes, self.judged, self.stopped) if self.scores else None

    @property
    def outcomes(self) -> tuple[float, ...]:
        """One number per answer: 1 if it passed, else 0; its score if the threshold is unknown."""
        if self.threshold is None:
            return self.scores
        return (1.0,) * self.passes + (0.0,) * (self.judged - self.passes)


def is_same_subject(one: JudgedCase, other: JudgedCase) -> bool:
    """Whether two results are from one case with the same judgement. Unknown values count as the same."""
    pairs = (
        (one.case_hash, other.case_hash),
        (one.grading_hash, other.grading_hash),
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
        known = list(cases)
        self._items: dict[tuple[str, str | None], set[str]] = defaultdict(set)
        self._targets: dict[str, set[str | None]] = defaultdict(set)
        for case in known:
            self._items[case.name, case.target].add(item_name(case))
        for case in known:
            self._targets[self.without_target(case)].add(case.target)

    def of(self, case: JudgedCase) -> str:
        """Return `<eval file>::<id>`, with the target where cases of that name have several."""
        name = self.without_target(case)
        has_target = case.target is not None and len(self._targets[name]) > 1
        return f"{name} ({case.target})" if has_target else name

    def without_target(self, case: JudgedCase) -> str:
        """Return `<eval file>::<id>`, or the name of the item where several items have that id."""
        return item_name(case) if len(self._items[case.name, case.target]) > 1 else case.name


def groups_of(cases: Sequence[JudgedCase]) -> list[str] | None:
    """Return the group of each case; None if no two cases share one.

    A case without a group forms one with itself under other targets, because all of them answer the same question.
    """
    groups = [f"group {case.group}" if case.group is not None else f"case {case.name}" for case in cases]
    return groups if len(set(groups)) < len(groups) else None


def values_of(cases: Sequence[JudgedCase]) -> list[float]:
    """Return the values that judged cases have together: their mean is one that all planned answers could have."""
    return within_ranges([case.value for case in cases], [case.possible for case in cases])


def depends_on_number(cases: Sequence[JudgedCase]) -> bool:
    """Whether later answers seem to fail or pass more often than first ones, so that `values_of` had to change much.

    Two standard errors: by chance, 2 of 100 runs seem so.
    """
    judged = [case for case in cases if case.scores]
    if not any(case.stopped for case in judged):
        return False
    beyond = [case.value - case.possible[1] for case in judged], [case.possible[0] - case.value for case in judged]
    found = [spread(each, groups_of(judged)) for each in beyond]
    return any(each.units >= LEAST_DIFFERING and each.mean > max(2 * each.error, _SLACK) for each in found)


def measure_of(cases: Sequence[JudgedCase]) -> str:
    """Return what `values_of` are: pass rates, or scores if the threshold of an answer is unknown."""
    return "Pass rate" if all(case.threshold is not None for case in cases if case.scores) else "Mean score"


def is_graded(cases: Sequence[JudgedCase]) -> bool:
    """Whether cases have more values than 0 and 1: several answers each, or scores without a threshold."""
    return any(case.threshold is None or case.judged > 1 for case in cases)


def limit_of(value: object) -> str:
    """Return how large a number may be, for the message about one that is too large; else nothing."""
    is_large = isinstance(value, int | float) and LARGEST < abs(value) < math.inf
    return f" of at most {LARGEST:g}" if is_large else ""
