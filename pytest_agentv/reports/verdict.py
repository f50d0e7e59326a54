"""The statistics of a run, its comparison with a baseline, the verdict, and the gates that it fails or passes."""

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.base import JsonObject, Record, counted
from pytest_agentv.model.options import DEFAULT_MARGIN, Gate, parse_pass_rate
from pytest_agentv.model.results import BaselineFigures, EvalResult
from pytest_agentv.reports.figures import (
    INDENT,
    LineStyle,
    SummaryLine,
    bounds,
    percent,
    plain,
    points,
    points_of,
    short_list,
    visible,
    wrap,
    wrapped,
)
from pytest_agentv.reports.judged_cases import (
    CaseComparison,
    CaseNames,
    JudgedCase,
    Pair,
    State,
    compare_cases,
    deltas_of,
    groups_of,
    is_graded,
    measure_of,
    pair_cases,
    pairs_of,
    shared_key,
    unconfirmed,
    values_of,
)
from pytest_agentv.reports.read import Baseline, baseline_of, has_other_judge
from pytest_agentv.reports.view import (
    JUDGED_WITH_RUN,
    REPLACING,
    UNENFORCED,
    Change,
    ChangeWord,
    GateOutcome,
    RunView,
    ending_of,
)
from pytest_agentv.stats.comparison import (
    LEAST_DIFFERING,
    NO_DROP,
    Difference,
    answers_to_confirm,
    cases_to_see,
    compare_pairs,
    decide_change,
    drop_seen,
    most_within,
    variance_between,
    variance_within,
)
from pytest_agentv.stats.intervals import (
    LEVEL,
    Interval,
    is_flaky,
    mean_interval,
    pass_all,
    pass_at,
    passing,
    repeat_interval,
)
from pytest_agentv.store.writers import verdict_path

_Key: TypeAlias = Callable[[JudgedCase], tuple[str | None, ...]]

OF_RUN: Final[tuple[State, ...]] = ("compared", "new", "changed", "error")
"""The states of the cases of a run. Only the baseline has the others."""
JUDGE_CHANGED: Final = "not comparable, the judge changed; write the baseline anew"


@dataclass(frozen=True, slots=True)
class RunComparison(Record):
    """The comparison of a run with its baseline."""

    cases: tuple[CaseComparison, ...]
    """Those of the run, and those that only the baseline has."""
    change: str
    """`regressed`, `improved`, `not worse`, `cannot tell`; `stale` if no case matches."""
    difference: Difference | None
    worse: int
    better: int
    least_drop: float | None
    """The least drop that would be seen in 4 of 5 runs; None with fewer than two units."""
    cases_needed: int | None
    """Cases that it takes to see a drop of the margin, in groups of the same size as these."""
    margin: float
    baseline: Baseline
    baseline_name: str
    judge_changed: bool = False
    unconfirmed: tuple[Pair, ...] = ()
    """Suspects that should have been asked again, but could not."""

    @property
    def resolution(self) -> str:
        """What the comparison could have seen. It always accompanies "cannot tell"."""
        if self.least_drop is None:
            return "one case, or one group of cases, tells nothing about a run"
        if self.least_drop >= 1:
            return "so few cases would hardly show any drop"
        return f"a drop of {self.least_drop * 100:.0f} points would be seen in 4 of 5 runs"

    def of(self, *states: State) -> list[CaseComparison]:
        """Return the comparisons of the cases in some states."""
        return [each for each in self.cases if each.figures.state in states]

    @property
    def broken(self) -> list[CaseComparison]:
        return [each for each in self.cases if each.figures.broke]


def _compare(
    cases: tuple[CaseComparison, ...], baseline: Baseline, name: str, *, margin: float, is_confirming: bool
) -> RunComparison:
    pairs = pairs_of(cases)
    deltas = deltas_of(pairs)
    if not pairs:
        return RunComparison(cases, "stale", None, 0, 0, None, None, margin, baseline, name)
    difference = difference_of(pairs)
    return RunComparison(
        cases,
        decide_change(difference, margin),
        difference,
        worse=sum(delta < 0 for delta in deltas),
        better=sum(delta > 0 for delta in deltas),
        least_drop=drop_seen(
            difference.error, difference.estimate.units, cases=len(pairs), answers=answers_of_both(pairs)
        ),
        cases_needed=_cases_needed(pairs, deltas, difference, margin),
        margin=margin,
        baseline=baseline,
        baseline_name=name,
        unconfirmed=unconfirmed(cases) if is_confirming else (),
    )


def difference_of(pairs: Sequence[Pair]) -> Difference:
    """Return the mean difference between the two sides of some pairs, with its interval."""
    graded = is_graded([side for pair in pairs for side in (pair.new, pair.old)])
    return compare_pairs(deltas_of(pairs), groups_of([pair.new for pair in pairs]), graded=graded)


def _cases_needed(pairs: Sequence[Pair], deltas: Sequence[float], difference: Difference, drop: float) -> int | None:
    """Return how many cases tell a drop of that size, with as many answers per case as these runs have."""
    if difference.estimate.units < 2 or drop <= NO_DROP:
        return None
    repeats, size = answers_of_both(pairs), len(pairs) / difference.estimate.units
    seen = variance_within(side.variance for pair in pairs for side in (pair.new, pair.old))
    # With one answer, the variance within cases is unknown.
    at_most = most_within(deltas, difference.error, repeats, size)
    within = seen if seen is not None and repeats > 1 else at_most
    return cases_to_see(drop, within, variance_between(difference.error, within, repeats, size), repeats, size)


def answers_of_both(pairs: Sequence[Pair]) -> int:
    """Return how many answers each case has at least, on both sides."""
    return min(min(pair.new.judged, pair.old.judged) for pair in pairs)


# The figures of a run, and the verdict on it.

RunVerdict: TypeAlias = Literal[
    "stale", "judge changed", "errors", "broken", "regressed", "inconclusive", "not worse", "improved",
    "no verdict", "no baseline",
]  # fmt: skip
"""`inconclusive`: the data cannot tell. `no verdict`: the run is not whole. `no baseline`: nothing to compare with."""


@dataclass(frozen=True, slots=True)
class PassRate(Record):
    """How often the cases of a run pass, with intervals."""

    n: int
    """Judged cases."""
    units: int
    """Independent units: groups of cases, or cases that are in no group."""
    mean: float
    interval: Interval | None
    """For other cases of this kind."""
    again: Interval | None
    """For these cases, asked again."""
    always: int
    """Cases that passed with all answers."""
    flaky: int
    never: int
    pass_at: float | None
    """Chance that one of k answers passes, k the answers per case; None where cases differ in k or stopped early."""
    pass_all: float | None

    @property
    def lowest(self) -> float:
        """The lower end of the interval, or the mean without one."""
        return self.mean if self.interval is None else self.interval.low


@dataclass(frozen=True, slots=True)
class RunStatistics(Record):
    """All figures of a run."""

    verdicts: tuple[RunVerdict, ...]
    """All verdicts on the run, the most urgent first."""
    reasons: tuple[str, ...]
    """The same in words."""
    cases: tuple[JudgedCase, ...]
    rate: PassRate | None
    """None: no case could be judged."""
    comparison: RunComparison | None = None

    @property
    def verdict(self) -> RunVerdict:
        return self.verdicts[0]

    @property
    def errors(self) -> tuple[JudgedCase, ...]:
        return tuple(case for case in self.cases if case.is_error)

    @property
    def known_cases(self) -> tuple[JudgedCase, ...]:
        """The cases of the run, and those that only its baseline has."""
        gone = self.comparison.of("gone", "skipped") if self.comparison is not None else []
        return (*self.cases, *(each.case for each in gone))

    def figures(self) -> Iterator[tuple[JudgedCase, BaselineFigures]]:
        """Yield the comparison of each case with the baseline; nothing without a comparison."""
        if self.comparison is not None:
            yield from ((each.case, each.figures) for each in self.comparison.of(*OF_RUN))

    def contract(self) -> JsonObject:
        """Return the JSON of `<results>.verdict.json`; keys without a value are left out."""
        rate, comparison, names = self.rate, self.comparison, CaseNames(self.known_cases)
        values: dict[str, object] = {"verdict": self.verdict, "reasons": list(self.reasons)}
        if rate is not None:
            values |= {"n": rate.n, "units": rate.units, "mean": rate.mean, **_bounds("", rate.interval)}
            values |= _bounds("again_", rate.again)
        values |= {"level": LEVEL, "errors": list(map(names.of, self.errors))}
        if comparison is not None:
            values |= _comparison_contract(comparison, names)
        return {key: value for key, value in values.items() if value is not None}


def _comparison_contract(comparison: RunComparison, names: CaseNames) -> dict[str, object]:
    difference, values = comparison.difference, dict[str, object]()
    if difference is not None:
        values |= {"delta": difference.estimate.mean, **_bounds("delta_", difference.estimate.interval)}
        values |= {"differ": difference.differing, "p_exact": difference.p_exact, "least_drop": comparison.least_drop}
    values["broke"] = [names.of(each.case) for each in comparison.broken]
    states: tuple[State, ...] = ("gone", "skipped", "changed", "new")
    values |= {state: [names.of(each.case) for each in comparison.of(state)] for state in states}
    values["unconfirmed"] = [names.of(pair.new) for pair in comparison.unconfirmed]
    values["baseline_sha256"] = comparison.baseline.sha256
    return values | {"cases": [case.contract() for case in comparison.cases]}


def _bounds(name: str, interval: Interval | None) -> dict[str, object]:
    return {} if interval is None else {f"{name}low": interval.low, f"{name}high": interval.high}


def run_statistics(cases: Sequence[JudgedCase]) -> RunStatistics:
    """Return the figures of a run without a baseline."""
    return RunStatistics(("no baseline",), (), tuple(cases), pass_rate_of(cases))


def pass_rate_of(cases: Sequence[JudgedCase]) -> PassRate | None:
    """Return the pass rate of the judged cases; None without any. In a dry run nothing was judged."""
    judged = [case for case in cases if case.scores and "dry_run" not in case.flags]
    if not judged:
        return None
    run = mean_interval(values_of(judged), groups_of(judged), graded=is_graded(judged))
    is_whole = all(case.judged > 1 and case.stopped is None for case in judged)
    # One number per answer: whether it passed, or its score if the threshold is unknown.
    outcomes = [
        case.scores if case.threshold is None else (1.0,) * case.passes + (0.0,) * (case.judged - case.passes)
        for case in judged
    ]
    again = repeat_interval(outcomes).interval if is_whole else None
    flaky = sum(is_flaky(case.passes, case.judged) for case in judged)
    never = sum(case.passes == 0 for case in judged)
    return PassRate(
        len(judged),
        run.units,
        run.mean,
        run.interval,
        again,
        always=len(judged) - flaky - never,
        flaky=flaky,
        never=never,
        pass_at=_mean_chance(judged, pass_at),
        pass_all=_mean_chance(judged, pass_all),
    )


def _mean_chance(cases: Sequence[JudgedCase], chance: Callable[[int, int, int], float | None]) -> float | None:
    counts = {case.judged for case in cases}
    if len(counts) > 1 or any(case.stopped is not None or case.threshold is None for case in cases):
        return None
    k = counts.pop()
    found = [value for case in cases if (value := chance(k, case.passes, case.judged)) is not None]
    return math.fsum(found) / len(cases) if len(found) == len(cases) else None


def compare_with_baseline(
    cases: Sequence[JudgedCase],
    baseline: Baseline,
    name: str,
    *,
    key: _Key = attrgetter("key"),
    skipped: Sequence[JudgedCase] = (),
    margin: float,
    is_confirming: bool,
) -> RunStatistics:
    """Return the verdict on a run against the baseline of that name. `skipped` cases of it do not count as gone.

    It is the first of what there is to tell; the reasons are in order.
    """
    compared = compare_cases(pair_cases(cases, baseline.cases, key, skipped), is_confirming=is_confirming)
    comparison = _compare(compared, baseline, name, margin=margin, is_confirming=is_confirming)
    if has_other_judge(cases, baseline):
        unknown = {"delta": None, "p": None, "q": None, "broke": False}
        known = tuple(case.replace(figures=case.figures.replace(**unknown)) for case in comparison.cases)
        comparison = comparison.replace(judge_changed=True, cases=known)
    found: list[tuple[RunVerdict, str]] = []
    gone = [each.case for each in comparison.of("gone")]
    errors = [case for case in cases if case.is_error]
    has_other_reason = comparison.judge_changed or (errors and comparison.of("error"))
    if not comparison.of("compared") and not has_other_reason:
        found.append(("stale", f"stale baseline: no case of it is comparable{_missing_target(gone, cases)}"))
    elif gone:
        text = f"stale baseline: {counted(len(gone), 'case')} {_are(len(gone))} gone{_missing_target(gone, cases)}"
        found.append(("stale", text))
    if comparison.judge_changed:
        found.append(("judge changed", f"{JUDGE_CHANGED} (--agentv-update-baseline)"))
    if errors:
        found.append(("errors", f"{counted(len(errors), 'case')} could not be judged"))
    if comparison.broken:
        found.append(("broken", f"{counted(len(comparison.broken), 'case')} {_are(len(comparison.broken))} broken"))
    found += _change(comparison)
    verdicts, reasons = zip(*found, strict=True)
    return RunStatistics(verdicts, reasons, tuple(cases), pass_rate_of(cases), comparison)


def compared(
    run: RunView, base: RunView | None, *, margin: float = DEFAULT_MARGIN, is_confirming: bool | None = None
) -> RunView:
    """Return a run with its statistics and, if there is a base, what changed: in the same way as the gates.

    `is_confirming`: whether suspects were asked again; None: decide by the results.
    """
    cases = run.cases
    if base is None:
        return run.replace(statistics=run_statistics(cases))
    if is_confirming is None:
        is_confirming = any(case.confirmation is not None for case in cases)
    found = {case.key for case in cases}
    left = [old for old in base.cases if (old.name, old.target) in run.ending.skipped and old.key not in found]
    baseline = base.baseline
    key: _Key = attrgetter("key")
    if baseline is None:  # results of a run, which anything may have judged
        baseline, key = baseline_of(base.cases).replace(cases=base.cases, judge=None), shared_key(cases, base.cases)
    statistics = compare_with_baseline(
        cases, baseline, base.name, key=key, skipped=left, margin=margin, is_confirming=is_confirming
    )
    before = {key(case): case.result for case in base.cases}
    assert statistics.comparison is not None
    changes = {
        each.case.label: _change_of(each, before.get(key(each.case))) for each in statistics.comparison.of(*OF_RUN)
    }
    return run.replace(statistics=statistics, base=base, changes=changes)


_NOT_COMPARED: Final[Mapping[str, Change]] = {
    "new": Change("new", "the baseline has no such case"),
    "changed": Change("changed", "its text, evaluators or threshold are others, so it is not compared"),
    "error": Change("error", "one of the two runs could not judge it"),
}


def _change_of(comparison: CaseComparison, before: EvalResult | None) -> Change:
    figures, pair = comparison.figures, comparison.pair
    if pair is None or figures.state != "compared":
        return _NOT_COMPARED[figures.state].replace(before=before)
    delta = figures.delta or 0.0
    word: ChangeWord = "broken" if figures.broke else "worse" if delta < 0 else "better" if delta > 0 else "same"
    chance = {"broken": f"; unlikely to be chance (q {figures.q or 0:.2g})", "same": ""}.get(word, "; may be chance")
    again = f"{pair.new.confirmation.passes}/{pair.new.confirmation.judged}" if pair.new.confirmation else ""
    old, new = (
        f"{case.value:.2f}" if case.threshold is None else f"{case.passes}/{case.judged}"
        for case in (pair.old, pair.new)
    )
    asked, short = (f", asked again {again}", f", again {again}") if again else ("", "")
    return Change(word, f"baseline {old}, now {new}{asked}{chance}", f"{old} → {new}{short}", delta, before)


def _missing_target(gone: Sequence[JudgedCase], cases: Sequence[JudgedCase]) -> str:
    """Return the targets of gone cases, if the run has only other targets."""
    targets = {case.target for case in gone if case.target is not None}
    if not targets or not targets.isdisjoint({case.target for case in cases}):
        return ""
    names = visible(", ".join(sorted(targets)))
    return f": the run has no case of the {'target' if len(targets) == 1 else 'targets'} {names}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _change(comparison: RunComparison) -> list[tuple[RunVerdict, str]]:
    if comparison.judge_changed or comparison.difference is None:
        return []
    points = f"{comparison.difference.estimate.mean * 100:+.1f} points"
    match comparison.change:
        case "regressed":
            hint = "if nothing changed, write the baseline anew (--agentv-update-baseline)"
            return [("regressed", f"regressed: {points}; {hint}")]
        case "improved":
            return [("improved", f"improved: {points}; update the baseline (--agentv-update-baseline)")]
        case "not worse":
            return [("not worse", f"not worse by {comparison.margin * 100:g} points or more")]
    word, note = word_of(comparison)
    return [("inconclusive", f"{word}: {points}; {note}" if word == "worse" else f"{word}: {note}")]


def word_of(comparison: RunComparison) -> tuple[str, str]:
    """Return the word for the change of the whole run, and what it rests on; empty: the figures say it.

    `worse`: the whole interval is below 0. Of few differing cases, that is no regression yet.
    """
    interval = None if comparison.difference is None else comparison.difference.estimate.interval
    if interval is None or interval.high >= 0 or comparison.difference is None:
        return comparison.change, comparison.resolution if comparison.change == "cannot tell" else ""
    is_regression = comparison.difference.differing >= LEAST_DIFFERING
    note = f"fewer than {LEAST_DIFFERING} cases differ, which is no regression of the whole run yet"
    return "worse", "" if is_regression else note


def tool_hint(case: JudgedCase) -> str | None:
    """Return the tool that separates all failing from all passing answers of a case; None: no tool does."""
    known = None if case.result.repeat is None else case.result.repeat.tools
    if known is None or case.threshold is None or len(known) != case.judged:
        return None
    is_pass = [passing([score], case.threshold) == 1 for score in case.scores]
    if sum(is_pass) != case.passes:
        return None  # a rule beside the scores decided, so it is unknown which answers passed
    passed = [set(tools) for tools, good in zip(known, is_pass, strict=True) if good]
    failed = [set(tools) for tools, good in zip(known, is_pass, strict=True) if not good]
    if not passed or not failed:
        return None
    for tool in sorted(set.union(*passed, *failed)):
        in_passed, in_failed = {tool in tools for tools in passed}, {tool in tools for tools in failed}
        if len(in_passed) == len(in_failed) == 1 and in_passed != in_failed:
            verb, all_of = "call" if tool in failed[0] else "skip", f"{len(failed)} of {len(failed)}"
            return f"failing answers {verb} `{tool}` ({all_of}), passing ones never (0 of {len(passed)})"
    return None


# The variants of a matrix: a pass rate for each, and how far it is from the first.


class Variant(NamedTuple):
    """The cases of one combination of a matrix."""

    name: str
    rate: PassRate
    difference: str
    """To the first variant, over the cases that both have: `-35.0 to careful, 95 % CI: -55.0 to -15.0`; else empty."""


def variants_of(cases: Sequence[JudgedCase]) -> list[Variant]:
    """Return the variants of a run in its order, without those that have no judged case; empty for fewer than two."""
    members: dict[str, list[JudgedCase]] = {}
    for case in cases:
        members.setdefault(case.combination, []).append(case)
    if len(members) < 2 or "" in members:  # a run of other cases, too, has a rate of its own
        return []
    first, *_ = members
    known = {_without_variant(case): case for case in members[first] if case.scores}
    found: list[Variant] = []
    for name, each in members.items():
        rate = pass_rate_of(each)
        pairs = [Pair(case, known[key]) for case in each if case.scores and (key := _without_variant(case)) in known]
        if rate is None:
            continue
        if name == first or not pairs:
            found.append(Variant(name, rate, ""))
            continue
        estimate = difference_of(pairs).estimate
        sure = points_of(estimate.interval, ", 95 % CI: ")
        found.append(Variant(name, rate, f"{points(estimate.mean)} to {first}{sure}"))
    return found


def _without_variant(case: JudgedCase) -> str:
    return (case.node_id or case.eval_id).removesuffix(f"@{case.combination}")


# The section EVALUATION STATISTICS of a run, 80 columns wide.

TITLE: Final = "EVALUATION STATISTICS"
_HINTS: Final = 3
"""The most flaky cases that show a tool hint. Further hints often name the same tool."""


def statistics_lines(
    statistics: RunStatistics, *, verbose: bool = False, no_verdict: str | None = None
) -> Iterator[SummaryLine]:
    """Yield the section of a run. `no_verdict` says why a run did not get the verdict it should get."""
    names = CaseNames(statistics.known_cases)
    yield SummaryLine(TITLE, "title")
    yield from plain(_size_text(statistics.cases))
    if statistics.rate is not None:
        yield from _rate_lines(statistics.rate, statistics.cases)
        yield from _repeat_lines(statistics.rate, statistics.cases, names, verbose=verbose)
    if statistics.comparison is not None:
        yield SummaryLine("")
        yield from comparison_lines(statistics.comparison, names, verbose=verbose)
    if no_verdict is not None:
        yield from wrapped("No verdict", no_verdict, "warning")


def _size_text(cases: Sequence[JudgedCase]) -> str:
    if not cases:
        return "No case was judged"
    counts = {case.asked for case in cases}
    answers = counted(max(counts, default=0), "answer")
    each = answers if len(counts) == 1 else f"{min(counts, default=0)} to {answers}"
    repeats = [(case, case.result.repeat) for case in cases if case.stopped is not None]
    stopped = sum(case.judged + (repeat.errors if repeat else 0) < case.asked for case, repeat in repeats)
    text = f"{counted(len(cases), 'case')}, {each} each"
    if stopped:
        text += f" at most, {sum(case.judged for case in cases):,} judged ({stopped:,} stopped when they were certain)"
    confirmed = [case.confirmation for case in cases if case.confirmation is not None]
    if confirmed:
        fresh = sum(each.asked for each in confirmed)
        text += f"; {fresh:,} more to confirm {counted(len(confirmed), 'suspect')}"
    return text


def _rate_lines(rate: PassRate, cases: Sequence[JudgedCase]) -> Iterator[SummaryLine]:
    first = f"{measure_of(cases):<15}{percent(rate.mean)}"
    if variants := variants_of(cases):
        for number, variant in enumerate(variants):
            label = measure_of(cases) if number == 0 else ""
            interval = bounds(variant.rate.interval, "   95 % CI: ")
            yield from wrapped(label, f"{visible(variant.name)} {percent(variant.rate.mean)}{interval}")
            if variant.difference:
                yield from wrapped("", f"   {visible(variant.difference)}")
    elif rate.interval is None:
        yield from plain(f"{first}   one case, or one group of cases: no interval")
    else:
        yield SummaryLine(f"{first:24}95 % CI: {bounds(rate.interval)}   other cases of this kind")
    if rate.again is not None and not variants:
        yield SummaryLine(f"{'':24}95 % CI: {bounds(rate.again)}   these cases, asked again")
    elif any(case.stopped is not None for case in cases):
        yield SummaryLine(f"{'':24}these cases, asked again: needs --agentv-stop=never")


def _repeat_lines(
    rate: PassRate, cases: Sequence[JudgedCase], names: CaseNames, *, verbose: bool
) -> Iterator[SummaryLine]:
    judged = [case for case in cases if case.scores]
    if not any(case.asked > 1 for case in judged):
        return
    if measure_of(judged) == "Pass rate":
        text = f"Always pass {rate.always}, sometimes {rate.flaky} (flaky), never {rate.never}"
        if rate.pass_at is not None and rate.pass_all is not None:
            k = judged[0].judged
            text += f"; pass@{k} {percent(rate.pass_at)}, pass^{k} {percent(rate.pass_all)}"
        yield from plain(text)
    flaky = [case for case in judged if is_flaky(case.passes, case.judged)]
    if flaky:
        flaky.sort(key=lambda case: (round(abs(case.value - 0.5), 9), case.name))
        shown = [f"{names.short(case)} {case.passes}/{case.judged}" for case in flaky]
        yield from wrapped("Flaky:", short_list(shown, verbose=verbose, used=7), indent=7)
    repeated = [case for case in judged if case.judged > 1]
    if repeated and all(each.result.repeat and each.result.repeat.same_text for each in repeated):
        yield SummaryLine("The answers were always the same text: repeats tell nothing here", "warning")
    hints = [f"{names.short(case)}: {visible(hint)}" for case in judged if (hint := tool_hint(case)) is not None]
    for hint in hints if verbose else hints[:_HINTS]:
        yield from wrapped("Hint", hint)
    if len(hints) > _HINTS and not verbose:
        yield from wrapped("", f"... {len(hints) - _HINTS:,} more: --agentv-verbose")


def comparison_lines(comparison: RunComparison, names: CaseNames, *, verbose: bool) -> Iterator[SummaryLine]:
    baseline = comparison.baseline
    target = f", target {visible(baseline.target)}" if baseline.target else ""
    size = f"{counted(sum(bool(case.scores) for case in baseline.cases), 'case')} x {baseline.repeat}{target}"
    compared = f"{len(comparison.of('compared')):,} compared"
    yield from plain(f"Against {visible(comparison.baseline_name)} ({size}): {compared}")
    yield from _state_lines(comparison, names, verbose=verbose)
    yield from _difference_lines(comparison)
    for each in comparison.broken:
        yield from wrapped("BROKEN", f"{names.short(each.case)}   {_tally(each)}    q {each.figures.q:.2g}", "fail")
    if comparison.broken:
        yield from wrapped("", "q: the chance that a case called broken is a false alarm")
    yield from _chance_lines(comparison, names, verbose=verbose)
    if comparison.unconfirmed:
        fresh = [pair.new.confirmation for pair in comparison.unconfirmed]
        few = ", or too few of these answers could be had" if any(each and each.judged for each in fresh) else ""
        text = f"these could not be asked again{few}, so their answers of this run decide: "
        shown = [names.short(pair.new) for pair in comparison.unconfirmed]
        yield from wrapped("Not confirmed", text + short_list(shown, verbose=verbose), "warning")


def _state_lines(comparison: RunComparison, names: CaseNames, *, verbose: bool) -> Iterator[SummaryLine]:
    states: Mapping[str, State] = {
        "Gone": "gone",
        "Skipped": "skipped",
        "Changed": "changed",
        "New": "new",
        "Not judged": "error",
    }
    for title, state in states.items():
        if cases := comparison.of(state):
            shown = [names.short(each.case) for each in cases]
            yield from wrapped(f"{title} {len(cases):,}", short_list(shown, verbose=verbose, used=INDENT))
    if comparison.judge_changed:
        yield from wrapped("Judge", f"{JUDGE_CHANGED}: pytest --agentv-update-baseline", "fail")


def _difference_lines(comparison: RunComparison) -> Iterator[SummaryLine]:
    difference = comparison.difference
    if difference is None or comparison.judge_changed:
        return
    interval = difference.estimate.interval
    mean = f"Difference     {points(difference.estimate.mean)}"
    if interval is None:
        yield from plain(f"{mean:24}cannot tell: one case, or one group of cases")
        return
    word, note = word_of(comparison)
    yield SummaryLine(f"{mean:24}95 % CI: {points_of(interval)}  {word}")
    differ = f"{counted(difference.differing, 'case')} {'differs' if difference.differing == 1 else 'differ'}"
    if difference.differing:
        differ += f" ({comparison.worse} worse, {comparison.better} better)"
    yield SummaryLine(f"{'':{INDENT}}{differ}")
    if word == "worse" and note:
        yield from wrapped("", note, "warning")
    if comparison.least_drop is not None and comparison.cases_needed is not None:
        has_groups = difference.estimate.units < len(comparison.of("compared"))
        needed = f"{counted(comparison.cases_needed, 'case')}{' in groups as now' if has_groups else ''}"
        margin = f"{comparison.margin * 100:g} points: {needed}"
        yield from wrapped("", f"{comparison.resolution}; for {margin}, see `agentv plan`")
    if missing := len(comparison.of("error")):
        total = len(comparison.of("compared")) + missing
        text = (
            f"on {total - missing} of {total} cases: the {'others' if missing > 1 else 'other one'} could not be judged"
        )
        yield from wrapped("", text, "warning")


def _chance_lines(comparison: RunComparison, names: CaseNames, *, verbose: bool) -> Iterator[SummaryLine]:
    """List single cases that got worse, but are not called broken."""
    worse = [each for each in comparison.cases if (each.figures.delta or 0.0) < 0 and not each.figures.broke]
    worse.sort(key=lambda each: (each.figures.delta, each.case.name))
    if worse:
        shown = [f"{names.short(each.case)} {_tally(each)}" for each in worse]
        yield from wrapped("May be chance", short_list(shown, verbose=verbose, used=INDENT))


def _tally(comparison: CaseComparison) -> str:
    pair = comparison.pair
    if pair is None or pair.new.threshold is None or pair.old.threshold is None:
        return f"{comparison.figures.delta:+.2f}"
    confirmation = pair.new.confirmation
    again = f", again {confirmation.passes}/{confirmation.judged}" if confirmation is not None else ""
    return f"{pair.old.passes}/{pair.old.judged} -> {pair.new.passes}/{pair.new.judged}{again}"


Tier: TypeAlias = Literal["critical", "advisory"]
_GATE: Final = re.compile(r"(.*\S) *: +min_rate=(\S+)(?: +tier=(critical|advisory))?")
_SLACK: Final = 1e-9


@dataclass(frozen=True, slots=True)
class TagGate(Record):
    """The pass rate that the cases with a tag must reach."""

    tag: str
    min_rate: float
    tier: Tier = "critical"
    """An `advisory` gate is shown, but never fails the run."""


def rate_gate(
    name: str, min_rate: float, cases: Iterable[JudgedCase], gate: Gate, tier: Tier = "critical"
) -> GateOutcome:
    """Return whether the pass rate of cases reaches another one. Cases that could not be judged do not count."""
    values = values_of([case for case in cases if case.scores])
    if not values:
        is_reached, text = False, f"no case could be judged; {percent(min_rate)} must pass"
    else:
        rate = math.fsum(values) / len(values)
        is_reached = rate + _SLACK >= min_rate
        relation = "reaches" if is_reached else "is below"
        others = (0.0, 1.0, rate) if is_reached else (0.0, 1.0)  # "66.67 % reaches 66.7 %" would be odd
        wanted = percent(min_rate, others) + (" (advisory)" if tier == "advisory" else "")
        share = percent(rate, (0.0, 1.0, min_rate))
        text = f"the pass rate {share} of {counted(len(values), 'case')} {relation} {wanted}"
    is_red = not is_reached and tier == "critical" and gate != "off"
    return GateOutcome(name, is_red, text, is_told=not is_reached)


def parse_tag_gates(lines: Iterable[str]) -> tuple[TagGate, ...]:
    """Read lines such as `booking: min_rate=0.9 tier=critical`. Raises `ValueError` with all faults."""
    gates: dict[str, TagGate] = {}
    faults: list[str] = []
    for line in filter(None, (line.strip() for line in lines)):
        try:
            gate = _parse(line)
            if gate.tag in gates:
                raise ValueError(f"the tag {gate.tag!r} has two gates")
            gates[gate.tag] = gate
        except ValueError as error:
            faults.append(f"{line!r}: {error}")
    if faults:
        raise ValueError("; ".join(faults))
    return tuple(gates.values())


def _parse(line: str) -> TagGate:
    found = _GATE.fullmatch(line)
    if found is None:
        raise ValueError("expected `<tag>: min_rate=<0 to 1> tier=<critical or advisory>`")
    tag, rate, tier = found.groups()
    return TagGate(tag, parse_pass_rate(rate), "advisory" if tier == "advisory" else "critical")


def unmatched_tags(gates: Iterable[TagGate], tags: Collection[str]) -> str | None:
    """Return the gates without any case; None: each gate has one."""
    faults = []
    for gate in gates:
        if gate.tag not in tags:
            hint = did_you_mean(gate.tag, tags)
            faults.append(f"no case has the tag {gate.tag!r}{f' ({hint})' if hint else ''}")
    return "; ".join(faults) or None


def check_tags(gates: Iterable[TagGate], cases: Sequence[JudgedCase], gate: Gate) -> list[GateOutcome]:
    """Check the cases of each tag against its gate."""
    return [
        rate_gate(
            f"gate::{each.tag}",
            each.min_rate,
            (case for case in cases if each.tag in (case.result.tags or ())),
            gate,
            each.tier,
        )
        for each in gates
    ]


# Decides which verdicts fail a run.

REGRESSION: Final = "regression"
"""The name of the gate on a baseline, behind the baseline's."""
_WIDTH: Final = 80
_INDENT: Final = 6

_RED: Final[frozenset[RunVerdict]] = frozenset({"stale", "judge changed", "errors", "broken", "regressed"})
_RED_IF_STRICT: Final = _RED | {"inconclusive"}


def gates_contract(outcomes: Sequence[GateOutcome], gate: Gate, judged_with_run: Collection[str]) -> JsonObject:
    """Return the keys of `<results>.verdict.json` about gates; none if no gate judged.

    `judged_with_run` are the node ids of failed cases that the gates judge in their place.
    """
    if not outcomes:
        return {}
    words = [
        {"name": each.name, "failed": each.is_red, "reason": each.reason}
        | ({UNENFORCED: True} if each.is_unenforced else {})
        for each in outcomes
    ]
    return {"gate": gate, "gates": words, **({JUDGED_WITH_RUN: sorted(judged_with_run)} if gate in REPLACING else {})}


def baseline_gate(statistics: RunStatistics, gate: Gate) -> GateOutcome:
    comparison = statistics.comparison
    assert comparison is not None
    name = f"{comparison.baseline_name}::{REGRESSION}"
    red = _RED_IF_STRICT if gate == "strict" else _RED
    found = [reason for verdict, reason in zip(statistics.verdicts, statistics.reasons, strict=True) if verdict in red]
    reason = found[0] if found else statistics.reasons[0]
    names = CaseNames(statistics.known_cases)
    broken = tuple(f"broken: {names.of(each.case)} (q {each.figures.q:.2g})" for each in comparison.broken)
    gone = tuple(f"gone: {names.of(each.case)}" for each in comparison.of("gone"))
    details = (*(other for other in statistics.reasons if other != reason), *broken, *gone)
    return GateOutcome(name, bool(found) and gate != "off", reason, is_told=bool(found), details=details)


def gate_lines(outcomes: Sequence[GateOutcome], regression: str) -> Iterator[SummaryLine]:
    """Yield the lines of each gate. The line of the baseline's gate has no name of its own."""
    for outcome in outcomes:
        if outcome.is_plain:
            yield from (SummaryLine(line) for line in wrap(outcome.headline, _WIDTH))
            continue
        name = "GATE" if outcome.name == regression else f"GATE {outcome.name.removeprefix('gate::')}"
        word, style = _word(outcome)
        for number, line in enumerate(wrap(f"{name}: {word}, {outcome.headline}", _WIDTH - _INDENT)):
            yield SummaryLine(f"{'' if number == 0 else ' ' * _INDENT}{line}", style)


def _word(outcome: GateOutcome) -> tuple[str, LineStyle]:
    if outcome.is_red:
        return "FAILED", "fail"
    if outcome.is_told:
        return "not enforced", "warning"
    # A comparison that cannot tell must not look like a success.
    return ("not failed", "warning") if outcome.reason.startswith(("cannot tell", "worse")) else ("passed", "pass")


def suspects_of(
    cases: Sequence[JudgedCase], baseline: Baseline, wanted: int, *, pairs: int | None = None
) -> Iterator[tuple[JudgedCase, int]]:
    """Yield the cases that look broken and were not asked again yet, with the fresh answers that each is to get.

    These are `wanted`, or more where so few could find nothing among so many `pairs`; None: those of these cases.
    """
    if has_other_judge(cases, baseline):
        return  # nothing can be compared
    found = pairs_of(pair_cases(cases, baseline.cases))
    for pair in found:
        if pair.is_suspect and pair.new.confirmation is None:
            answers = answers_to_confirm(len(found) if pairs is None else pairs, pair.old.judged, wanted)
            if answers:
                yield pair.new, answers


# Finds the verdict beside a results file.


def read_contract(results_path: Path, cases: Sequence[JudgedCase]) -> JsonObject | None:
    """Return the JSON of the verdict on these cases; None: there is no such file, or it is about other results."""
    try:
        contract = json.loads(verdict_path(results_path).read_text("utf-8"))
        return contract if _fits(contract, cases) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # no file, or none of ours
        return None


def _fits(contract: JsonObject, cases: Sequence[JudgedCase]) -> bool:
    """Whether a verdict has the figures of these cases. A later run may have written to the same file."""
    statistics = run_statistics(cases)
    rate, mean = statistics.rate, contract.get("mean")
    ending_of(contract)  # raises for a file of others
    if len(contract["errors"]) != len(statistics.errors):
        return False
    if rate is None or mean is None:
        return rate is None and mean is None
    return contract["n"] == rate.n and math.isclose(mean, rate.mean, abs_tol=1e-9)
