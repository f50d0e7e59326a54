"""The first screen: the verdict in a sentence, the large numbers, the cases to look at first."""

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pytest_agentv.model.base import Record, counted
from pytest_agentv.model.messages import Costs
from pytest_agentv.model.results import Spent
from pytest_agentv.reports.columns import bounds, percent
from pytest_agentv.reports.figures import spent_in
from pytest_agentv.reports.gates import AS_JUDGED, Ending
from pytest_agentv.reports.html.cases import (
    SCORED,
    Case,
    Compared,
    Judgement,
    dollars,
    duration,
    filter_link,
    is_cached,
    listed,
    mapping_of,
    number_of,
    points,
    spelled,
    whole_cost_of,
)
from pytest_agentv.reports.judged_cases import measure_of
from pytest_agentv.reports.verdict import PassRate, pass_rate_of


@dataclass(frozen=True, slots=True)
class Headline(Record):
    """The verdict on the run."""

    tone: Literal["pass", "fail", "none"]
    text: str
    more: str = ""

    @property
    def sign(self) -> str:
        return {"pass": "✓", "fail": "✕", "none": "?"}[self.tone]


def headline(cases: Sequence[Case], compared: Compared, ending: Ending = AS_JUDGED) -> Headline:
    total = len(cases)
    if cases and all(case.result.value.get("dry_run") is True for case in cases):
        return Headline("none", f"Dry run: {counted(total, 'case')} with mocked answers.", "The scores mean nothing.")
    facts = _facts(cases, ending)
    unjudged = f"No verdict on the run as a whole: {ending.unjudged}." if ending.unjudged else ""
    gates = [f"The gate says: {text}." for text in (ending.red if facts else ending.red[1:])]
    more = " ".join(filter(None, (*gates, unjudged, _as_a_whole(compared), _rules(cases))))
    is_broken = any(case.is_broken for case in cases) and not ending.replaces_cases
    is_failed = any(case.status == "fail" and not ending.excuses(case.judged) for case in cases)
    has_errors = any(case.status == "error" for case in cases)
    if ending.red or ending.troubles or ending.unexpected or is_failed or has_errors or is_broken:
        return Headline("fail", f"Failed: {listed(facts)}." if facts else f"Failed at a gate: {ending.red[0]}.", more)
    if ending.replaces_cases and facts:
        return Headline("pass", f"Passed its gates: {listed(facts)}.", more)
    every = _passes(cases)
    is_open = unjudged or any(case.status == SCORED for case in cases)
    return Headline("none", f"No verdict: {every}.", more) if is_open else Headline("pass", f"Passed: {every}.", more)


def _facts(cases: Sequence[Case], ending: Ending) -> list[str]:
    """Return what went wrong; with that, how many cases failed as expected."""
    counts = Counter(case.status for case in cases)
    broken = sum(case.is_broken for case in cases)
    expected = sum(case.status == "fail" and case.judged.node_id in ending.expected for case in cases)
    failed = counts["fail"] - expected
    facts = list(ending.troubles)
    facts += [f"{counted(len(ending.unexpected), 'case')} passed against a strict `xfail`"] if ending.unexpected else []
    facts += [f"{counted(broken, 'case')} broke against the baseline"] if broken else []
    facts += [f"{failed:,} of {len(cases):,} fail"] if failed else []
    facts += [f"{counts['error']:,} could not be judged"] if counts["error"] else []
    return facts + ([f"{expected:,} failed as expected"] if facts and expected else [])


def _as_a_whole(compared: Compared) -> str:
    comparison = compared.comparison
    if comparison is None:
        return ""
    said = {
        "regressed": "worse than the baseline",
        "improved": "better than the baseline",
        "not worse": f"not worse than the baseline by {comparison.margin * 100:g} points or more",
    }.get(comparison.change, "not shown to be worse or better than the baseline")
    if comparison.difference is None:
        return "No case of the baseline can be compared with this run."
    if "judge changed" in compared.statistics.verdicts:
        return "Another judge judged the baseline, so the difference says nothing about the target."
    seen = f"; {comparison.resolution}" if "shown" in said else ""
    return f"As a whole the run is {said}{seen}."


def _rules(cases: Sequence[Case]) -> str:
    """Return the threshold, and how many answers must reach it, if they are the same for all cases."""
    judged = [case for case in cases if case.judged.threshold is not None]
    thresholds = {case.judged.threshold for case in judged}
    if len(thresholds) != 1:
        return ""
    text = f"The threshold is {thresholds.pop():g}"
    # How many answers must pass, and of how many; None for a case that is asked once.
    repeats = [mapping_of(case.result.value, "repeat") for case in judged]
    (need, planned), *others = {(number_of(repeat, "needed"), number_of(repeat, "planned")) for repeat in repeats}
    if need is not None and planned is not None and not others:
        text += f"; {need:.0f} of {planned:.0f} answers must reach it"
    return f"{text}."


def _passes(cases: Sequence[Case]) -> str:
    counts, total = Counter(case.status for case in cases), len(cases)
    if scored := counts[SCORED]:
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


def figures(cases: Sequence[Case], compared: Compared) -> tuple[Figure, ...]:
    """Return pass rate, difference to the baseline, cost and time."""
    cost = _cost(cases, compared)
    return tuple(filter(None, (_rate(compared), _difference(compared), cost, _time(cases))))


def _rate(compared: Compared) -> Figure:
    rate, name = compared.statistics.rate, measure_of(compared.statistics.cases)
    if rate is None:
        is_dry = any("dry_run" in case.flags for case in compared.statistics.cases)
        return Figure(name, "–", "a dry run judges nothing" if is_dry else "no case could be judged")
    if rate.low is None or rate.high is None:
        return Figure(name, percent(rate.mean), "one case, or one group of cases: no interval")
    units = f"; {counted(rate.units, 'independent group')}" if rate.units < rate.n else f"; {counted(rate.n, 'case')}"
    text = f"95 %: {bounds(rate.low, rate.high)} for cases of this kind{units}"
    return Figure(name, percent(rate.mean), text, (rate.low, rate.high, rate.mean))


def _difference(compared: Compared) -> Figure | None:
    comparison = compared.comparison
    if comparison is None or comparison.difference is None:
        return None
    interval = comparison.difference.estimate.interval
    sure = "" if interval is None else f"95 %: {points(interval.low)} to {points(interval.high)}; "
    text = f"{sure}{comparison.worse} worse, {comparison.better} better of {len(comparison.pairing.pairs):,} compared"
    return Figure("Against the baseline", f"{points(comparison.difference.estimate.mean)} points", text)


def _cost(cases: Sequence[Case], compared: Compared) -> Figure:
    each = [spent_in(case.result.value) for case in cases]
    spent = Spent.added(each)
    costs, judge = spent.answer, spent.judge
    for_judges = []
    if judge is not None and judge.cost_known:
        for_judges.append(f"judges took {dollars(judge.cost_usd)} beside it{_known(judge)}")
    cached = sum(is_cached(case.result.value) for case in cases)
    if not costs.cost_known:
        why = "all answers came from the cache" if cached == len(cases) else "not reported"
        return Figure("Cost", "–", "; ".join([why, *for_judges]))
    priced = sum(one.answer.cost_known > 0 for one in each)
    parts = [f"{dollars(costs.cost_usd / priced)} a case{_known(costs)}"]
    if cached:
        parts.append(f"{cached:,} from the cache")
    parts += _change_of_cost(cases, compared)
    reruns = sum(int(number_of(case.result.value, "reruns") or 0) for case in cases)
    if reruns:
        parts.append(f"with {counted(reruns, 'rerun')}")
    parts += for_judges
    return Figure("Cost", dollars(costs.cost_usd), "; ".join(parts))


def _known(costs: Costs) -> str:
    return f", known for {costs.cost_known:,} of {costs.calls:,} calls" if costs.cost_known < costs.calls else ""


def _change_of_cost(cases: Sequence[Case], compared: Compared) -> Iterator[str]:
    """Yield the change of the cost of the answers, over the cases whose cost is known in both runs."""
    base = compared.base
    if base is None:
        return
    known = [
        (now, before)
        for case in cases
        if case.change is not None and case.change.word != "changed" and case.change.before is not None
        if (now := whole_cost_of(case.result.value)) is not None
        if (before := whole_cost_of(case.change.before.value)) is not None
    ]
    old = math.fsum(before for _, before in known)
    if old <= 0:
        return
    change = round(100 * (math.fsum(now for now, _ in known) / old - 1))
    text = f"{change:+d} % against the baseline" if change else "as much as the baseline"
    part = f" over {counted(len(known), 'case')}" if len(known) < max(len(cases), len(base.results)) else ""
    yield f"{text.replace('-', MINUS)}{part}"


def _time(cases: Sequence[Case]) -> Figure:
    times = sorted(case.duration_ms for case in cases if case.duration_ms is not None)
    if not times:
        return Figure("Time of a case", "–", "not measured")
    slow = times[min(len(times) - 1, int(len(times) * 0.95))]
    answers = sum(len(case.marks) for case in cases if case.duration_ms is not None)
    text = f"median; 95 % take less than {duration(slow)}; {counted(answers, 'answer')}"
    return Figure("Time of a case", duration(statistics.median(times)), text)


# The first screen below the verdict: cases to look at first, targets, frequent reasons.

_MOST_FIRST: Final = 8
_MOST_REASONS: Final = 5


@dataclass(frozen=True, slots=True)
class First(Record):
    """A case to look at first."""

    case: Case
    word: str
    tone: str
    text: str


@dataclass(frozen=True, slots=True)
class TargetRow(Record):
    """A target with the figures of its cases."""

    name: str
    link: str
    rate: str
    interval: str
    failed: int
    errors: int
    flaky: int
    cost: str
    median: str


@dataclass(frozen=True, slots=True)
class Reason(Record):
    """A reason that several failing cases share."""

    text: str
    evaluator: str
    count: int
    link: str
    name: str
    """Identifies it among the reasons of a report."""


def firsts(cases: Sequence[Case]) -> tuple[First, ...]:
    """Return what broke, then errors, then the lowest failing cases."""
    broken = [
        First(case, "✕ Broken", "fail", case.change.short if case.change else "") for case in cases if case.is_broken
    ]
    errors = [First(case, "! Error", "error", case.why) for case in cases if case.status == "error"]
    rest = [case for case in cases if case.status == "fail" and not case.is_broken]
    # The largest drops come first.
    rest.sort(key=lambda case: case.change.delta or 0.0 if case.change is not None else 0.0)
    failed = [First(case, "✕ Failed", "fail", case.why) for case in rest]
    space = _MOST_FIRST - min(len(errors), 2)
    shown = broken[:space]
    shown += errors[: max(2, _MOST_FIRST - len(shown) - len(failed))]
    return (*shown, *failed[: max(0, _MOST_FIRST - len(shown))])


def target_rows(cases: Sequence[Case]) -> tuple[TargetRow, ...]:
    """Return a row for each target."""
    return tuple(_target_row(name, [case for case in cases if case.target == name]) for name in names_of_targets(cases))


def _target_row(name: str, cases: Sequence[Case]) -> TargetRow:
    rate: PassRate | None = pass_rate_of([case.judged for case in cases])
    times = [case.duration_ms for case in cases if case.duration_ms is not None]
    costs = Costs.added(spent_in(case.result.value).answer for case in cases)
    # A sum that is not the whole cost says for how many calls it is.
    part = f" ({costs.cost_known:,} of {costs.calls:,} calls)" if costs.cost_known < costs.calls else ""
    return TargetRow(
        name=name,
        link=filter_link(target=name),
        rate="–" if rate is None else percent(rate.mean),
        interval="" if rate is None or rate.low is None or rate.high is None else bounds(rate.low, rate.high),
        failed=sum(case.status == "fail" for case in cases),
        errors=sum(case.status == "error" for case in cases),
        flaky=sum(case.is_flaky for case in cases),
        cost=f"{dollars(costs.cost_usd)}{part}" if costs.cost_known else "–",
        median=duration(statistics.median(times)) if times else "–",
    )


def names_of_targets(cases: Sequence[Case]) -> list[str]:
    return sorted({case.target for case in cases})


def reasons(cases: Sequence[Case]) -> tuple[Reason, ...]:
    """Return the reasons that several failing cases share, the most frequent first."""
    known = {name: each for case in cases for name, each in reasons_of(case).items()}
    found = Counter(name for case in cases for name in reasons_of(case))
    return tuple(
        Reason(known[name].reason, known[name].name, count, filter_link(outcome="fail", reason=name), name)
        for name, count in found.most_common(_MOST_REASONS)
        if count > 1  # the list above shows the reason of a single case
    )


def reasons_of(case: Case) -> dict[str, Judgement]:
    """Return why a case failed: evaluators below the threshold by the name that links have for their reasons."""
    low = case.low if case.status == "fail" else ()
    return {spelled(f"{each.name}: {each.reason}"): each for each in low if each.reason}


def also(compared: Compared) -> Iterator[tuple[str, str]]:
    """Yield further differences from the baseline: a text, and a link to the cases (empty: no link)."""
    if compared.comparison is None:
        return
    worse, better = compared.count("worse"), compared.count("better")
    yield from (
        (f"{count:,} {word}", filter_link(change=word) if count else "")
        for word, count in (("worse", worse), ("better", better))
    )
    for word, count in (("new", compared.count("new")), ("changed", compared.count("changed"))):
        if count:
            yield f"{count:,} {word}", filter_link(change=word)
    if gone := len(compared.comparison.pairing.gone):
        yield f"{gone:,} gone", ""
    if skipped := len(compared.comparison.pairing.skipped):
        yield f"{skipped:,} skipped", ""
