"""What the report shows: the list of cases, the verdict in a sentence, the large numbers, and the plots."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote, urlencode

from pytest_agentv.model.base import LARGEST, Json, JsonObject, Record, counted, is_amount
from pytest_agentv.model.messages import Costs
from pytest_agentv.model.results import EvalResult, EvaluatorResult, Spent
from pytest_agentv.reports.figures import (
    bounds,
    duration_of,
    evaluators_of,
    format_cost,
    format_duration,
    known_for,
    known_part,
    percent,
    percentile,
    points,
    points_of,
    shortened,
    spent_of,
)
from pytest_agentv.reports.judged_cases import CaseStatus, JudgedCase, groups_of, is_graded, measure_of, values_of
from pytest_agentv.reports.read import case_in
from pytest_agentv.reports.verdict import PassRate, RunStatistics, pass_rate_of, variants_of, word_of
from pytest_agentv.reports.view import Change, RunView
from pytest_agentv.stats.intervals import is_flaky, mean_interval

# Formats numbers and names for the report.

_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that move the cursor, change the direction of text, or are invisible."""


def spelled(text: str) -> str:
    """Return a text in which hidden characters are spelled out, as `[U+202E]`."""
    return _HIDDEN.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)


def listed(parts: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def first_sentence(text: str, length: int = 160) -> str:
    """Return the first sentence of a text on one line, without its full stop."""
    line = " ".join(text.split())
    sentence = re.split(r"(?<=[.!?])\s", line, maxsplit=1)[0].rstrip(".")
    return shortened(sentence, length, "…")


def filter_link(**filters: str) -> str:
    """Return the link to the cases that match some filters."""
    return f"#{urlencode(filters, errors='replace')}"


# The judgements of a result.

DEFAULT_JUDGE: Final = "default judge"

_SLACK: Final = 1e-9
_MOST_MISSES: Final = 3


@dataclass(frozen=True, slots=True)
class JudgementRow(Record):
    """The result of one evaluator, and how deep it is in composites: their members follow them."""

    result: EvaluatorResult
    depth: int = 0

    @property
    def name(self) -> str:
        return self.result.name

    @property
    def kind(self) -> str:
        """What evaluators have in common whose names say what they check: `contains` of `contains: 30 days`."""
        kind, colon, _ = self.name.partition(": ")
        return kind if colon and kind in (self.result.type, f"not-{self.result.type}") else self.name

    @property
    def score(self) -> float:
        """The score; 0 for one that is no number, and the largest float for one that is too large."""
        score = self.result.score
        return 0.0 if math.isnan(score) else max(-LARGEST, min(LARGEST, score))

    def is_low(self, threshold: float | None) -> bool:
        return bool(self.result.error) or self.score < (1.0 if threshold is None else threshold) - _SLACK

    @property
    def reason(self) -> str:
        """Why the score is not better, on one line."""
        if self.result.error:
            return first_sentence(self.result.error)
        misses = self.result.misses
        if not misses:
            return first_sentence(self.result.reasoning or "")
        shown = "; ".join(first_sentence(miss, 80) for miss in misses[:_MOST_MISSES])
        return f"{shown} and {len(misses) - _MOST_MISSES} more" if len(misses) > _MOST_MISSES else shown


def judgements_of(result: EvalResult) -> tuple[JudgementRow, ...]:
    """Return the judgements of a result's evaluators."""
    if result.evaluator_results:
        return tuple(JudgementRow(each, len(path) - 1) for path, each in evaluators_of(result.evaluator_results))
    if result.status == "error" or not (result.reasoning or result.hits or result.misses):
        return ()
    given = {"hits": result.hits, "misses": result.misses, "reasoning": result.reasoning, "judge_model": result.judge}
    return (JudgementRow(EvaluatorResult(DEFAULT_JUDGE, "llm_judge", result.score).replace(**given)),)


# The list of cases in the report, worst first.

STATUSES: Final[tuple[CaseStatus, ...]] = ("pass", "fail", "error", "scored")
BADGES: Final = {"pass": "✓ Passed", "fail": "✕ Failed", "error": "! Error", "scored": "○ Scored"}

NO_TARGET: Final = "(no target)"
"""Stands for the target of a result that names none."""

_LONGEST_WHY: Final = 220


@dataclass(frozen=True, slots=True)
class CaseRow(Record):
    """One row of the list."""

    judged: JudgedCase
    result: EvalResult
    judgements: tuple[JudgementRow, ...]
    answers: tuple[tuple[CaseStatus, EvalResult], ...]
    """Each answer with its status, with `--agentv-include-answers`."""
    change: Change | None
    key: str
    link: str
    """The link to the case within the report. It is the same in every run."""
    status: CaseStatus
    file: str
    target: str
    cost: float | None
    """US dollars that were paid; None for cached answers, which cost nothing now."""
    duration_ms: float | None
    """Milliseconds that the target took; None if not measured."""
    is_flaky: bool
    is_broken: bool

    @property
    def badge(self) -> str:
        return BADGES[self.status]

    @property
    def low(self) -> tuple[JudgementRow, ...]:
        """Evaluators below the threshold, without members of composites; none if no threshold is known."""
        if self.status == "scored":
            return ()
        threshold = self.judged.threshold
        return tuple(each for each in self.judgements if each.depth == 0 and each.is_low(threshold))

    @property
    def why(self) -> str:
        """On one line why it failed or broke, each reason once. For a flaky pass, what its failing answer lacks."""
        result = self.result
        if self.status == "error":
            return first_sentence(result.error or "", 200)
        if result.status == "pass" and self.status == "pass" and not self.is_flaky:
            return ""
        parts = [first_sentence(result.assertion)] if result.assertion else []
        parts += [f"required: {text}" for text in result.unmet_required or ()]
        threshold = self.judged.threshold
        low = [each for each in self.judgements if each.depth == 0 and each.is_low(threshold)]
        parts += [f"{each.name}: {each.reason}" if each.reason else f"{each.name} {each.score:.2f}" for each in low]
        return ("; ".join(dict.fromkeys(parts)) or first_sentence(result.reasoning or ""))[:_LONGEST_WHY]

    @property
    def marks(self) -> str:
        """A letter for each answer: `p` passed, `f` failed, `e` could not be judged, `s` has only a score.

        If their order is unknown, the passing ones come first.
        """
        case, repeat = self.judged, self.result.repeat
        if repeat is None or case.status == "scored":
            return "s" * case.judged if case.status == "scored" else "e" if case.is_error else "fp"[case.passes > 0]
        marks = "".join("p" if score >= (case.threshold or 0.0) - _SLACK else "f" for score in repeat.scores)
        if marks.count("p") != repeat.passes:  # a required rubric or a hook decided
            marks = "p" * repeat.passes + "f" * (len(marks) - repeat.passes)
        return marks + "e" * repeat.errors

    @property
    def rank(self) -> tuple[int, float]:
        """Its place in the list: broken, errors, failed, flaky, passed; the lowest scores first."""
        order = {"error": 1, "fail": 2, "scored": 2, "pass": 4}[self.status]
        if self.is_broken:
            order = 0
        elif self.is_flaky and self.status == "pass":
            order = 3
        return order, self.result.score


def cases_of(run: RunView) -> tuple[CaseRow, ...]:
    """Return the cases of a run, worst first, else in the order of the run."""
    cases = [_case(case, case.result, run.changes.get(case.label)) for case in run.cases]
    return tuple(sorted(cases, key=lambda case: case.rank))


def _case(judged: JudgedCase, result: EvalResult, change: Change | None) -> CaseRow:
    return CaseRow(
        judged,
        result,
        judgements_of(result),
        tuple(_answers(result)),
        change,
        key=judged.label,
        link=f"#case={quote(judged.label, safe='', errors='replace')}",
        status=judged.status,
        file=judged.eval_file or result.dataset or "(no file)",
        target=judged.target or NO_TARGET,
        cost=spent_of(result).answer.cost,
        duration_ms=duration_of(result),
        is_flaky=judged.status in ("pass", "fail") and is_flaky(judged.passes, judged.judged),
        is_broken=change is not None and change.word == "broken",
    )


def _answers(result: EvalResult) -> Iterator[tuple[CaseStatus, EvalResult]]:
    """Yield the answers of a result. Only their own values count: other tools may leave out any."""
    for each in result.answers or ():
        score: Json = each.get("score")
        case = case_in({**each, "eval_id": result.eval_id, "score": score if is_amount(score) else 0.0})
        yield case.status, case.result


# The history of several runs, as a whole and by case.


def in_order(runs: Iterable[RunView]) -> list[RunView]:
    """Return the runs whose results are known, oldest first."""
    return sorted((run for run in runs if run.results), key=lambda run: run.finished)


def past_of_cases(runs: Sequence[RunView]) -> dict[str, list[JsonObject]]:
    """Return the history of each case by its key, a mapping for each run; empty if there is only one run."""
    found: dict[str, list[JsonObject]] = {}
    for run in runs if len(runs) > 1 else ():
        of_run = {"run": run.name, "when": when_of(run)}
        for case in run.cases:
            past = {"status": case.status, "passes": case.passes, "judged": case.judged}
            score = {"score": math.fsum(case.scores) / case.judged} if case.scores else {}
            found.setdefault(case.label, []).append(of_run | past | score)
    return found


def when_of(run: RunView) -> str:
    """Return when a run ended, as `2026-11-22 06:00`, else the name of its file."""
    return run.finished[:16].replace("T", " ") or run.name


@dataclass(frozen=True, slots=True)
class Headline(Record):
    """The verdict on the run."""

    tone: Literal["pass", "fail", "none"]
    text: str
    more: str = ""

    @property
    def sign(self) -> str:
        return {"pass": "✓", "fail": "✕", "none": "?"}[self.tone]


def headline(cases: Sequence[CaseRow], run: RunView) -> Headline:
    total, ending = len(cases), run.ending
    if run.is_mocked:
        return Headline("none", f"Dry run: {counted(total, 'case')} with mocked answers.", "The scores mean nothing.")
    facts = _facts(cases, run)
    unjudged = f"No verdict on the run as a whole: {ending.unjudged}." if ending.unjudged else ""
    gates = [f"The gate says: {text}." for text in (ending.red if facts else ending.red[1:])]
    more = " ".join(filter(None, (*gates, unjudged, _as_a_whole(run), _rules(cases))))
    is_broken = any(case.is_broken for case in cases) and not ending.replaces_cases
    is_failed = any(case.status == "fail" and ending.outcome(case.result) != "expected" for case in cases)
    has_errors = any(case.status == "error" for case in cases)
    if ending.red or ending.troubles or ending.unexpected or is_failed or has_errors or is_broken:
        return Headline("fail", f"Failed: {listed(facts)}." if facts else f"Failed at a gate: {ending.red[0]}.", more)
    if ending.replaces_cases and facts:
        return Headline("pass", f"Passed its gates: {listed(facts)}.", more)
    every = _passes(cases)
    is_open = unjudged or any(case.status == "scored" for case in cases)
    return Headline("none", f"No verdict: {every}.", more) if is_open else Headline("pass", f"Passed: {every}.", more)


def _facts(cases: Sequence[CaseRow], run: RunView) -> list[str]:
    """Return what went wrong; with that, how many cases failed as expected."""
    ending = run.ending
    counts = Counter(case.status for case in cases)
    broken = sum(case.is_broken for case in cases)
    expected = sum(case.status == "fail" and case.result.node_id in ending.expected for case in cases)
    failed = counts["fail"] - expected
    facts = [f"{each.text[0].lower()}{each.text[1:]}" for each in ending.troubles]
    facts += [f"{counted(len(ending.unexpected), 'case')} passed against a strict `xfail`"] if ending.unexpected else []
    facts += [f"{counted(broken, 'case')} broke against the baseline"] if broken else []
    facts += [f"{failed:,} of {len(cases):,} fail"] if failed else []
    facts += [f"{counts['error']:,} could not be judged"] if counts["error"] else []
    return facts + ([f"{expected:,} failed as expected"] if facts and expected else [])


def _as_a_whole(run: RunView) -> str:
    comparison = run.statistics.comparison if run.statistics else None
    if comparison is None or run.statistics is None:
        return ""
    if comparison.difference is None:
        return "No case of the baseline can be compared with this run."
    if "judge changed" in run.statistics.verdicts:
        return "Another judge judged the baseline, so the difference says nothing about the target."
    word, note = word_of(comparison)
    said = {
        "worse": "worse than the baseline",
        "improved": "better than the baseline",
        "not worse": f"not worse than the baseline by {comparison.margin * 100:g} points or more",
    }.get(word, "not shown to be worse or better than the baseline")
    return f"As a whole the run is {said}{f' ({note})' if note else ''}."


def _rules(cases: Sequence[CaseRow]) -> str:
    """Return the threshold, and how many answers must reach it, if they are the same for all cases."""
    known = [case.result for case in cases if case.judged.threshold is not None]
    thresholds = {result.threshold for result in known}
    if len(thresholds) != 1:
        return ""
    text = f"The threshold is {thresholds.pop():g}"
    # How many answers must pass, and of how many; None for a case that is asked once.
    repeats = (result.repeat for result in known)
    first, *others = {None if each is None else (each.needed, each.planned) for each in repeats}
    if first is not None and not others:
        text += f"; {first[0]} of {first[1]} answers must reach it"
    return f"{text}."


def _passes(cases: Sequence[CaseRow]) -> str:
    counts, total = Counter(case.status for case in cases), len(cases)
    if scored := counts["scored"]:
        others = [f"{counts['pass']:,} of {total:,} cases pass"] if counts["pass"] else []
        others += [f"{counts['fail']:,} failed as expected"] if counts["fail"] else []
        have = f"{counted(scored, 'case')} {'has' if scored == 1 else 'have'} a score, and no threshold is known"
        return ", ".join([*others, have])
    if counts["fail"]:
        return f"{counts['pass']:,} of {total:,} cases pass, {counts['fail']:,} failed as expected"
    return f"all {total:,} cases pass" if total > 1 else "the one case passes"


# The large numbers of the first screen: pass rate, difference to the baseline, cost and time.

MINUS: Final = "\N{MINUS SIGN}"


@dataclass(frozen=True, slots=True)
class Figure(Record):
    """One of the large numbers."""

    label: str
    value: str
    text: str
    bar: tuple[float, float, float] | None = None
    """Low, high and mean of an interval, 0 to 1."""


def figures(cases: Sequence[CaseRow], run: RunView) -> tuple[Figure, ...]:
    """Return pass rate, difference to the baseline, cost and time, as far as they are known.

    A matrix has a pass rate for each variant, in the table of these, and none of all together.
    """
    statistics = run.statistics
    assert statistics is not None
    rate = None if variants_of(statistics.cases) else _rate(statistics)
    return tuple(filter(None, (rate, _difference(statistics), _cost(cases), _time(cases))))


def _rate(statistics: RunStatistics) -> Figure:
    rate, name = statistics.rate, measure_of(statistics.cases)
    if rate is None:
        is_dry = any("dry_run" in case.flags for case in statistics.cases)
        return Figure(name, "–", "a dry run judges nothing" if is_dry else "no case could be judged")
    if rate.interval is None:
        return Figure(name, percent(rate.mean), "one case, or one group of cases: no interval")
    units = counted(rate.units, "independent group") if rate.units < rate.n else counted(rate.n, "case")
    text = f"95 % CI: {bounds(rate.interval)} for cases of this kind; {units}"
    return Figure(name, percent(rate.mean), text, (rate.interval.low, rate.interval.high, rate.mean))


def _difference(statistics: RunStatistics) -> Figure | None:
    comparison = statistics.comparison
    if comparison is None or comparison.difference is None:
        return None
    estimate = comparison.difference.estimate
    sure = f"{points_of(estimate.interval, '95 % CI: ')}; " if estimate.interval else ""
    text = f"{sure}{comparison.worse} worse, {comparison.better} better of {len(comparison.of('compared')):,} compared"
    return Figure(
        "Against the baseline", f"{points(estimate.mean)} points".replace("-", MINUS), text.replace("-", MINUS)
    )


def _cost(cases: Sequence[CaseRow]) -> Figure | None:
    each = [spent_of(case.result) for case in cases]
    spent = Spent.added(each)
    costs, judge = spent.answer, spent.judge or Costs()
    for_judges = (
        [f"judges took {format_cost(judge.cost_usd)} beside it{known_part(judge.cost_known, judge)}"]
        if judge.cost_known
        else []
    )
    cached = sum(bool(case.result.cached) for case in cases)
    if not costs.cost_known:
        is_cached = bool(cached) and cached == len(cases)
        text = "all answers came from the cache" if is_cached else "not reported"
        return Figure("Cost", "–", "; ".join([text, *for_judges])) if is_cached or for_judges else None
    priced = sum(one.answer.cost_known > 0 for one in each)
    parts = [f"{format_cost(costs.cost_usd / priced)} a case{known_part(costs.cost_known, costs)}"]
    if cached:
        parts.append(f"{cached:,} from the cache")
    if reruns := sum(case.result.reruns or 0 for case in cases):
        parts.append(f"with {counted(reruns, 'rerun')}")
    return Figure("Cost", format_cost(costs.cost_usd), "; ".join([*parts, *for_judges]))


def _time(cases: Sequence[CaseRow]) -> Figure | None:
    known = [(case.duration_ms, len(case.marks)) for case in cases]
    times = [ms for ms, _ in known if ms is not None]
    if not times:
        return None
    answers = counted(sum(count for ms, count in known if ms is not None), "answer")
    text = f"p50; p95 {format_duration(percentile(times, 95))}; {answers}"
    return Figure("Time of the target", format_duration(statistics.median(times)), text)


# The first screen below the verdict: cases to look at first, targets, frequent reasons.

_MOST_FIRST: Final = 8
_MOST_REASONS: Final = 5


@dataclass(frozen=True, slots=True)
class First(Record):
    """A case to look at first."""

    case: CaseRow
    word: str
    tone: str
    text: str


@dataclass(frozen=True, slots=True)
class Reason(Record):
    """A reason that several failing cases share."""

    text: str
    evaluator: str
    count: int
    link: str
    name: str
    """Identifies it among the reasons of a report."""


def firsts(cases: Sequence[CaseRow]) -> tuple[First, ...]:
    """Return what broke, then errors, then the lowest failing cases."""
    broken = [
        First(case, "✕ Broken", "fail", case.change.short if case.change else "") for case in cases if case.is_broken
    ]
    errors = [First(case, case.badge, "error", case.why) for case in cases if case.status == "error"]
    rest = [case for case in cases if case.status == "fail" and not case.is_broken]
    # The largest drops come first.
    rest.sort(key=lambda case: case.change.delta or 0.0 if case.change is not None else 0.0)
    failed = [First(case, case.badge, "fail", case.why) for case in rest]
    space = _MOST_FIRST - min(len(errors), 2)
    shown = broken[:space]
    shown += errors[: max(2, _MOST_FIRST - len(shown) - len(failed))]
    return (*shown, *failed[: max(0, _MOST_FIRST - len(shown))])


def target_rows(cases: Sequence[CaseRow]) -> tuple[dict[str, str | int], ...]:
    """Return a row for each variant of a matrix, else for each target."""
    variants = {each.name: each.difference for each in variants_of([case.judged for case in cases])}
    if not variants:
        targets = sorted({case.target for case in cases})
        return tuple(_target_row(name, [case for case in cases if case.target == name], "") for name in targets)
    members = {name: [case for case in cases if case.result.combination == name] for name in variants}
    return tuple(_target_row(name, members[name], text) for name, text in variants.items())


def _target_row(name: str, cases: Sequence[CaseRow], difference: str) -> dict[str, str | int]:
    rate = pass_rate_of([case.judged for case in cases])
    times = [case.duration_ms for case in cases if case.duration_ms is not None]
    costs = Costs.added(spent_of(case.result).answer for case in cases)
    part = known_for(costs.cost_known, costs)
    return {
        "name": name,
        "link": filter_link(target=cases[0].target),
        "rate": "–" if rate is None else percent(rate.mean),
        "interval": "" if rate is None else bounds(rate.interval),
        "difference": difference,
        "failed": sum(case.status == "fail" for case in cases),
        "errors": sum(case.status == "error" for case in cases),
        "flaky": sum(case.is_flaky for case in cases),
        "cost": f"{format_cost(costs.cost_usd)}{f' ({part})' if part else ''}" if costs.cost_known else "–",
        "median": format_duration(statistics.median(times)) if times else "–",
    }


def reasons(cases: Sequence[CaseRow]) -> tuple[Reason, ...]:
    """Return the reasons that several failing cases share, the most frequent first."""
    known = {name: each for case in cases for name, each in reasons_of(case).items()}
    found = Counter(name for case in cases for name in reasons_of(case))
    return tuple(
        Reason(known[name].reason, known[name].name, count, filter_link(outcome="fail", reason=name), name)
        for name, count in found.most_common(_MOST_REASONS)
        if count > 1  # the list above shows the reason of a single case
    )


def reasons_of(case: CaseRow) -> dict[str, JudgementRow]:
    """Return why a case failed: evaluators below the threshold by the name that links have for their reasons."""
    low = case.low if case.status == "fail" else ()
    return {spelled(f"{each.name}: {each.reason}"): each for each in low if each.reason}


def also(run: RunView) -> Iterator[tuple[str, str]]:
    """Yield further differences from the baseline: a text, and a link to the cases (empty: no link)."""
    comparison = run.statistics.comparison if run.statistics else None
    if comparison is None:
        return
    counts = Counter(change.word for change in run.changes.values())
    for word in ("worse", "better", "new", "changed"):
        if counts[word] or word in ("worse", "better"):
            yield f"{counts[word]:,} {word}", filter_link(change=word) if counts[word] else ""
    for state in ("gone", "skipped"):
        if count := len(comparison.of(state)):
            yield f"{count:,} {state}", ""


# The plots of a report.

Plot: TypeAlias = dict[str, Any]
"""What a template needs to draw a plot, or a part of it. Lengths are in percent of an axis or of the height."""

# The axes of plots: map values to positions, and choose ticks.


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps a share to percent of the width."""

    low: float
    ticks: tuple[tuple[float, str], ...]

    @classmethod
    def percents(cls, lowest: float) -> "Scale":
        """Return an axis from the tenth below the lowest share to 100 %."""
        low = min(0.9, max(0.0, math.floor((lowest - 0.02) * 10) / 10))
        step = 1 if low >= 0.6 else 2 if low >= 0.2 else 5
        first = math.ceil(low * 10 / step) * step
        marks = [tenth / 10 for tenth in range(first, 11, step)]
        return cls(low, tuple((round(100 * (m - low) / (1 - low), 2), f"{m * 100:.0f} %") for m in marks))

    def at(self, share: float) -> float:
        return round(100 * (share - self.low) / (1 - self.low), 2)


def log_ticks(low: float, high: float, say: Callable[[float], str]) -> tuple[tuple[float, str], ...]:
    """Return at most four ticks of a logarithmic axis, or its ends if no round number is between them."""
    values = [m * 10.0**e for e in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
    inside = [value for value in values if low <= math.log10(value) <= high] or [10**low, 10**high]
    inside = inside[:: max(1, math.ceil(len(inside) / 4))]
    return tuple((round(100 * (math.log10(value) - low) / (high - low), 1), say(value)) for value in inside)


# Compares pass rates by tag or by file.

_MOST_ROWS: Final = 12


def rate_plot(
    cases: Sequence[CaseRow], run: RunView, key: Literal["tag", "file"], names: Callable[[CaseRow], Iterable[str]]
) -> Plot | None:
    """Return the pass rates of the cases by their tags or files, lowest first; None if there are none to compare."""
    members: dict[str, list[CaseRow]] = {}
    for case in cases:
        for name in dict.fromkeys(names(case)) if case.judged.scores else ():
            members.setdefault(name, []).append(case)
    overall = run.statistics.rate if run.statistics else None
    if overall is None or len(members) < (1 if key == "tag" else 2):
        return None
    rates = {name: rate for name, group in members.items() if (rate := pass_rate_of([c.judged for c in group]))}
    worst = sorted(rates, key=lambda name: (rates[name].mean, name))[:_MOST_ROWS]
    before = {name: _before(members[name], run) for name in worst}
    shown = [rates[name] for name in worst]
    lowest = [rate.lowest for rate in shown]
    axis = Scale.percents(min([*lowest, overall.mean, *(value for value in before.values() if value is not None)]))
    rows = tuple(_row(name, filter_link(**{key: name}), rates[name], before[name], axis) for name in worst)
    return {"rows": rows, "ticks": axis.ticks, "overall": axis.at(overall.mean), "left_out": len(rates) - len(worst)}


def _before(cases: Sequence[CaseRow], run: RunView) -> float | None:
    """Return the mean pass rate that the baseline had for some cases."""
    comparison = run.statistics.comparison if run.statistics else None
    if comparison is None:
        return None
    old = {each.case.label: each.pair.old for each in comparison.of("compared") if each.pair is not None}
    values = values_of([old[case.key] for case in cases if case.key in old])
    return math.fsum(values) / len(values) if values else None


def _row(name: str, link: str, rate: PassRate, before: float | None, axis: Scale) -> Plot:
    interval = rate.interval
    return {
        "name": name,
        "link": link,
        "at": axis.at(rate.mean),
        "low": None if interval is None else axis.at(interval.low),
        "high": None if interval is None else axis.at(interval.high),
        "before": None if before is None else axis.at(before),
        "text": percent(rate.mean),
        "count": f"of {rate.n:,}",
        "interval": bounds(interval),
        "was": "" if before is None else percent(before),
    }


# Plots the score against the cost or the time of a case.

WIDTH: Final = 240
HEIGHT: Final = 150
_CELLS: Final = 24
"""The number of cells along each side of the grid in which pale dots are counted."""


def trade_plots(cases: Sequence[CaseRow]) -> tuple[Plot, ...]:
    """Return score against cost and against time, if costs are known."""
    axes: tuple[tuple[str, Callable[[CaseRow], float | None], Callable[[float], str]], ...] = (
        ("cost of a case", lambda case: case.cost, format_cost),
        ("time of the target", lambda case: case.duration_ms, format_duration),
    )
    found = [_trade_plot(title, cases, of, say) for title, of, say in axes]
    return tuple(filter(None, found)) if found[0] is not None else ()


def _trade_plot(
    title: str, cases: Sequence[CaseRow], of: Callable[[CaseRow], float | None], say: Callable[[float], str]
) -> Plot | None:
    known = [
        (case, value) for case in cases if case.status != "error" and (value := of(case)) is not None and value > 0
    ]
    if len(known) < 2:
        return None
    logs = [math.log10(value) for _, value in known]
    low, high = min(logs) - 0.05, max(logs) + 0.05
    dots: list[Plot] = []
    typical: list[Plot] = []
    for series, target in enumerate(sorted({case.target for case in cases})):
        mine = [(case, (math.log10(value) - low) / (high - low)) for case, value in known if case.target == target]
        if not mine:
            continue
        dots += _grid(mine, series)
        at = math.fsum(x for _, x in mine) / len(mine)
        judged = [case.judged for case, _ in mine]
        estimate = mean_interval([case.result.score for case, _ in mine], groups_of(judged), graded=is_graded(judged))
        interval = estimate.interval
        typical.append(
            {
                "target": target,
                "series": series % 3,
                "x": round(at * WIDTH, 1),
                "y": _height(estimate.mean),
                "low": None if interval is None else _height(interval.low),
                "high": None if interval is None else _height(interval.high),
                "cost": say(10 ** (low + at * (high - low))),
                "score": f"{estimate.mean:.2f}",
                "interval": "" if interval is None else f"{interval.low:.2f} to {interval.high:.2f}",
            }
        )
    return {"title": title, "dots": dots, "typical": typical, "ticks": log_ticks(low, high, say)}


def _grid(cases: Sequence[tuple[CaseRow, float]], series: int) -> list[Plot]:
    """Return one dot for each cell with cases, so that many cases need only some hundred dots."""
    cells = Counter((round(x * _CELLS), round(case.result.score * _CELLS)) for case, x in cases)
    most = max(cells.values())
    return [
        {
            "x": round(x / _CELLS * WIDTH, 1),
            "y": _height(y / _CELLS),
            "size": round(1.4 + 4 * math.sqrt(n / most), 1),
            "series": series % 3,
        }
        for (x, y), n in sorted(cells.items())
    ]


def _height(score: float) -> float:
    return round(HEIGHT * (1 - score), 1)


# The scores of each evaluator.

BINS: Final = 10


def histograms(cases: Sequence[CaseRow]) -> tuple[Plot, ...]:
    """Return the scores of each kind or name of evaluators that judged, the most used first."""
    scores: dict[tuple[str, str], list[float]] = {}
    names: dict[tuple[str, str], set[str]] = {}
    partial: set[tuple[str, str]] = set()
    for case in cases:
        answers = [each for _, answer in case.answers for each in judgements_of(answer)]
        for each in answers or case.judgements:
            if each.depth == 0 and not each.result.error:
                key = (each.kind, each.result.type)
                scores.setdefault(key, []).append(each.score)
                names.setdefault(key, set()).add(each.name)
                if len(case.marks) > 1 and not answers:
                    partial.add(key)
    thresholds = {case.judged.threshold for case in cases if case.judgements}
    threshold = thresholds.pop() if len(thresholds) == 1 else None
    ordered = sorted(scores.items(), key=lambda entry: -len(entry[1]))
    return tuple(
        {**_histogram(*key, names[key], found, threshold), "is_partial": key in partial}
        for key, found in ordered[:_MOST_ROWS]
    )


def _histogram(name: str, kind: str, names: Collection[str], scores: Sequence[float], threshold: float | None) -> Plot:
    bins = Counter(min(BINS - 1, int(min(1, max(0, score)) * BINS + 1e-9)) for score in scores)
    counts = tuple(bins[number] for number in range(BINS))
    top = math.sqrt(max(counts))
    low = sum(score < threshold - 1e-9 for score in scores) if threshold is not None else 0
    below = f", {low:,} of {len(scores):,} below" if threshold is not None else f" of {counted(len(scores), 'score')}"
    return {
        "name": name,
        "kind": kind,
        "link": filter_link(evaluator=next(iter(names))) if len(names) == 1 else "",
        "heights": tuple(round(math.sqrt(count) / top, 3) for count in counts),
        "counts": counts,
        "threshold": threshold,
        "text": f"mean {math.fsum(scores) / len(scores):.2f}{below}",
    }


def history_plot(runs: Sequence[RunView]) -> Plot | None:
    """Return the pass rates and costs of the runs in order; None if there is only one."""
    rated = [(run, rate) for run in runs if (rate := pass_rate_of(run.cases)) is not None]
    if len(rated) < 2:
        return None
    paid = [Costs.added(spent_of(each).answer for each in run.results) for run, _ in rated]
    axis = Scale.percents(min(rate.lowest for _, rate in rated))
    most = max(costs.cost_usd for costs in paid) or 1.0
    step = 100 / len(rated)
    points: list[Plot] = []
    for number, ((run, rate), costs) in enumerate(zip(rated, paid, strict=True)):
        interval = rate.interval
        cost = "cost not known" if costs.calls else "from the cache"
        if costs.cost is not None:
            cost = f"{format_cost(costs.cost)}{known_part(costs.cost_known, costs)}"
        points.append(
            {
                "x": round(step * (number + 0.5), 2),
                "y": axis.at(rate.mean),
                "low": None if interval is None else axis.at(interval.low),
                "high": None if interval is None else axis.at(interval.high),
                "bar": round(100 * costs.cost_usd / most, 1),
                "when": when_of(run),
                "name": run.name,
                "rate": percent(rate.mean),
                "interval": bounds(interval),
                "cost": cost,
            }
        )
    return {"points": points, "ticks": axis.ticks}
