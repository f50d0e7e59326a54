"""The cases of a run or of a baseline, read from results of any origin, and their pairs."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pytest_agentv.files.problems import Problem, describe_value
from pytest_agentv.model.base import LARGEST, Json, JsonObject, Record, is_measure, text_or_none
from pytest_agentv.model.results import BaselineFigures, EvalResult
from pytest_agentv.reports.figures import with_id
from pytest_agentv.stats.comparing import (
    LEAST_ANSWERS,
    LEAST_DIFFERING,
    MOST_FALSE,
    NO_DROP,
    SURE_ANSWERS,
    SUSPECT,
    benjamini_hochberg,
    fisher_less,
    variance_of,
)
from pytest_agentv.stats.intervals import Verdict, answer_variance, pass_rate, passing, spread, within_ranges
from pytest_agentv.store.readers import iter_foreign, skipped

_SLACK: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Confirmation(Record):
    """Fresh answers of a case that looked broken."""

    asked: int
    judged: int
    passes: int


@dataclass(frozen=True, slots=True)
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


# Reads cases from results of any origin. Values of other tools under our keys must not crash or mislead us.

_STOPS: Final[Mapping[str, Verdict]] = {"certain pass": "pass", "certain fail": "fail"}
_HASHES: Final = ("case_hash", "grading_hash", "target_hash")
_NAMES: Final = ("target", "eval_file", "node_id", "judge")
_FLAGS: Final = ("cached", "dry_run", "reruns")

_READ: Final = (
    *(*_NAMES, *_HASHES, "group", "conversation_id", "eval_id", "score", "status", "error", "threshold", "tags"),
    *("required", "cached", "dry_run", "timestamp"),
)


class CaseName(NamedTuple):
    """The names of a case and of its target. The last result of each name counts, for all who read a results file."""

    node_id: str | None
    eval_file: str | None
    eval_id: str
    target: str | None

    @property
    def label(self) -> str:
        """The name to show."""
        if self.node_id is not None:
            return with_id(self.node_id, self.eval_file, self.eval_id)
        return f"{self.eval_file}::{self.eval_id}" if self.eval_file else self.eval_id


def name_of(value: JsonObject) -> CaseName:
    """Return the name of a result in which `result_fault` found none."""
    node_id, eval_file, target = (text_or_none(value.get(key)) for key in ("node_id", "eval_file", "target"))
    return CaseName(node_id, eval_file, value["eval_id"], target)


def name_of_result(result: EvalResult) -> CaseName:
    return CaseName(result.node_id, result.eval_file, result.eval_id, result.target)


def cases_of_run(results: Iterable[EvalResult]) -> list[JudgedCase]:
    """Return the cases of a run. Cases of the same name get the names of their items."""
    cases: list[JudgedCase] = []
    for result in results:
        value = {key: getattr(result, key) for key in _READ}  # without traces and texts, which are large
        if result.repeat is not None:
            value["repeat"] = result.repeat.to_plain()
        cases.append(case_of(value))
    return unique_names(cases)


def read_cases(path: Path) -> tuple[list[JudgedCase], list[Problem]]:
    """Read the cases of a results file, and what could not be read. The last line of a case counts.

    Cases of the same name keep it, because other files of the run may have more of them.
    Raises `FileError` if the file cannot be opened.
    """
    cases: dict[CaseName, JudgedCase] = {}
    problems: list[Problem] = []
    for entry in iter_foreign(path):
        fault = None if isinstance(entry, Problem) else result_fault(entry.value)
        if isinstance(entry, Problem):
            problems.append(entry)
        elif fault is not None:
            problems.append(skipped(path, entry.line, fault))
        else:
            cases[name_of(entry.value)] = case_of(entry.value)
    return list(cases.values()), problems


def score_fault(value: JsonObject) -> str | None:
    """Return why a line holds no score of a case; None if it does."""
    eval_id, score = value.get("eval_id"), value.get("score")
    if not isinstance(eval_id, str):
        return f"the result has no eval_id: expected a text, got {describe_value(eval_id)}"
    if not is_measure(score):
        return (
            f"the result of {eval_id!r} has no score: expected a number{limit_of(score)}, got {describe_value(score)}"
        )
    return None


def result_fault(value: JsonObject) -> str | None:
    """Return why a line holds no result; None if it does."""
    if (fault := score_fault(value)) is not None:
        return fault
    eval_id, score = value["eval_id"], value["score"]
    scores = _repeat(value).get("scores", [score])
    if not isinstance(scores, list | tuple) or not all(map(is_measure, scores)):
        return f"the result of {eval_id!r} has no repeat.scores: expected a list of numbers"
    outside = [each for each in scores if not 0 <= each <= 1]
    if outside and not is_measure(value.get("threshold")) and not is_error_of(value):
        return f"the result of {eval_id!r} has the score {outside[0]:g} and no threshold: expected 0 to 1"
    return None


def case_of(value: JsonObject) -> JudgedCase:
    """Return the case of a result in which `result_fault` found none."""
    texts = {name: text_or_none(value.get(name)) for name in (*_NAMES, *_HASHES)}
    repeat, is_error = _repeat(value), is_error_of(value)
    threshold = value["threshold"] if is_measure(value.get("threshold")) else None
    scores = () if is_error else tuple(float(score) for score in repeat.get("scores", [value["score"]]))
    eval_id, eval_file = value["eval_id"], texts["eval_file"]
    planned = (_count(repeat.get("planned")), _count(repeat.get("asked")), len(scores), 1)
    # Other tools may number the groups: their cases are not independent either.
    groups = (value.get("group"), value.get("conversation_id"))
    tools = None
    if isinstance(called := repeat.get("tools"), list | tuple):
        tools = tuple(tuple(filter(text_or_none, _items(names))) for names in called)
    return JudgedCase(
        name=f"{eval_file}::{eval_id}" if eval_file else texts["node_id"] or eval_id,
        scores=scores,
        passes=_passes(value, repeat, scores, threshold),
        threshold=threshold,
        is_error=is_error,
        asked=next(count for count in planned if count),
        stopped=_STOPS.get(text_or_none(repeat.get("stopped")) or ""),
        errors=_count(repeat.get("errors")) or 0,
        eval_id=eval_id,
        group=next((str(each) for each in groups if each and (isinstance(each, str) or is_measure(each))), None),
        tags=tuple(filter(text_or_none, _items(value.get("tags")))),
        required=value.get("required") is True,
        confirmation=_confirmation(repeat.get("confirm")),
        flags=tuple(flag for flag in _FLAGS if value.get(flag) or repeat.get(flag)),
        has_same_texts=same if isinstance(same := repeat.get("same_text"), bool) else None,
        tools=tools,
        ended=ended_at(value.get("timestamp")),
        **texts,
    )


def _passes(value: JsonObject, repeat: JsonObject, scores: Sequence[float], threshold: float | None) -> int:
    """Return how many answers passed. The run's decisions (required rubrics, hooks) come before the scores."""
    passes = _count(repeat.get("passes"))
    if passes is not None:
        return min(passes, len(scores))
    if len(scores) == 1 and value.get("status") in ("pass", "fail"):
        return int(value["status"] == "pass")
    return 0 if threshold is None else passing(scores, threshold)


def _confirmation(value: Json) -> Confirmation | None:
    known = value if isinstance(value, Mapping) else {}
    asked, judged, passes = (_count(known.get(key)) for key in ("asked", "judged", "passes"))
    if asked is None or judged is None or passes is None or not passes <= judged <= asked:
        return None
    return Confirmation(asked, judged, passes)


def _items(value: Json) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _count(value: Json) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _repeat(value: JsonObject) -> JsonObject:
    """Return the figures of several answers; empty where there are none, or only another tool's key of that name."""
    repeat = value.get("repeat")
    return repeat if isinstance(repeat, Mapping) else {}


def is_error_of(value: JsonObject) -> bool:
    """Whether a case could not be judged. AgentV's own results have no status, but may have an error."""
    return value.get("error") is not None or value.get("status") == "error"


def ended_at(timestamp: Json) -> datetime | None:
    """Return when a case ended; None: the text of a result does not say so."""
    try:
        time = datetime.fromisoformat(timestamp) if isinstance(timestamp, str) else None
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time


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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


def not_compared(case: CaseComparison) -> CaseComparison:
    """Return a case without its comparison, for two runs that cannot be compared."""
    return case.replace(delta=None, p=None, q=None, broke=False)
