"""The statistics of a run: its pass rate, its comparison with a baseline, and the verdict."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pytest_agentv.model.base import JsonObject, Record, counted
from pytest_agentv.model.options import DEFAULT_MARGIN
from pytest_agentv.model.results import BaselineFigures
from pytest_agentv.reports.baseline import Baseline, has_other_judge
from pytest_agentv.reports.columns import (
    INDENT,
    ShortNames,
    bounds,
    percent,
    plain,
    points,
    short_list,
    wrapped,
)
from pytest_agentv.reports.figures import SummaryLine, visible
from pytest_agentv.reports.judged_cases import (
    CaseComparison,
    CaseNames,
    JudgedCase,
    Pair,
    Pairing,
    compare_cases,
    deltas_of,
    depends_on_number,
    groups_of,
    is_graded,
    measure_of,
    not_compared,
    pair_cases,
    unconfirmed,
    values_of,
)
from pytest_agentv.stats.comparing import (
    LEAST_DIFFERING,
    NO_DROP,
    Difference,
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

JUDGE_CHANGED: Final = "not comparable, the judge changed; write the baseline anew"


@dataclass(frozen=True, slots=True)
class RunComparison(Record):
    """The comparison of a run with its baseline."""

    pairing: Pairing
    cases: tuple[CaseComparison, ...]
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
    judge_changed: bool = False
    baseline: Baseline | None = None
    baseline_name: str = ""
    unconfirmed: tuple[Pair, ...] = ()
    """Suspects that should have been asked again, but could not."""
    bounds_with_errors: tuple[float, float] | None = None
    """The difference if all that a run could not judge failed, and if it passed, whichever is lower and higher."""

    @property
    def resolution(self) -> str:
        """What the comparison could have seen. It always accompanies "cannot tell"."""
        if self.least_drop is None:
            return "one case, or one group of cases, tells nothing about a run"
        if self.least_drop >= 1:
            return "so few cases would hardly show any drop"
        return f"a drop of {self.least_drop * 100:.0f} points would be seen in 4 of 5 runs"

    @property
    def has_groups(self) -> bool:
        """Whether compared cases share a group."""
        return self.difference is not None and self.difference.estimate.units < len(self.pairing.pairs)

    @property
    def compared(self) -> tuple[tuple[Pair, CaseComparison], ...]:
        """The pairs with their comparisons, which come first among `cases`."""
        return tuple(zip(self.pairing.pairs, self.cases, strict=False))

    @property
    def broken(self) -> tuple[CaseComparison, ...]:
        return tuple(case for case in self.cases if case.broke)

    @property
    def broken_pairs(self) -> tuple[tuple[Pair, CaseComparison], ...]:
        return tuple((pair, case) for pair, case in self.compared if case.broke)


def compare_runs(
    new: Sequence[JudgedCase],
    old: Sequence[JudgedCase],
    *,
    margin: float = DEFAULT_MARGIN,
    is_confirming: bool | None = None,
    pairing: Pairing | None = None,
) -> RunComparison:
    """Compare a run with an earlier one.

    Args:
        new: The cases of the run.
        old: Those of the earlier run.
        margin: The drop that "not worse" excludes.
        is_confirming: Whether suspects get fresh answers; None: as the cases of the run show.
        pairing: How the cases match; None: by file, id and target.
    """
    if is_confirming is None:
        is_confirming = any(case.confirmation is not None for case in new)
    matched = pairing if pairing is not None else pair_cases(new, old)
    cases = compare_cases(matched, is_confirming=is_confirming)
    pairs = matched.pairs
    deltas = deltas_of(pairs)
    if not pairs:
        return RunComparison(matched, cases, "stale", None, 0, 0, None, None, margin)
    graded = is_graded([side for pair in pairs for side in (pair.new, pair.old)])
    difference = compare_pairs(deltas, groups_of([pair.new for pair in pairs]), graded=graded)
    return RunComparison(
        matched,
        cases,
        decide_change(difference, margin),
        difference,
        worse=sum(delta < 0 for delta in deltas),
        better=sum(delta > 0 for delta in deltas),
        least_drop=drop_seen(
            difference.error, difference.estimate.units, cases=len(pairs), answers=_answers_of_both(pairs)
        ),
        cases_needed=_cases_needed(pairs, deltas, difference, margin),
        margin=margin,
        unconfirmed=unconfirmed(matched, cases) if is_confirming else (),
        bounds_with_errors=_bounds_with_errors(matched, deltas),
    )


def _cases_needed(pairs: Sequence[Pair], deltas: Sequence[float], difference: Difference, drop: float) -> int | None:
    """Return how many cases tell a drop of that size, with as many answers per case as these runs have."""
    if difference.estimate.units < 2 or drop <= NO_DROP:
        return None
    repeats, size = _answers_of_both(pairs), len(pairs) / difference.estimate.units
    seen = variance_within(side.variance for pair in pairs for side in (pair.new, pair.old))
    # With one answer, the variance within cases is unknown.
    at_most = most_within(deltas, difference.error, repeats, size)
    within = seen if seen is not None and repeats > 1 else at_most
    return cases_to_see(drop, within, variance_between(difference.error, within, repeats, size), repeats, size)


def _answers_of_both(pairs: Sequence[Pair]) -> int:
    """Return how many answers each case has at least, on both sides."""
    return min(min(pair.new.judged, pair.old.judged) for pair in pairs)


def _bounds_with_errors(pairing: Pairing, deltas: Sequence[float]) -> tuple[float, float] | None:
    """Return the bounds of the mean difference, if a missing judgement may count as anything from 0 to 1."""
    if not pairing.errors:
        return None
    new_ranges, old_ranges = (_ranges(side) for side in zip(*(pair.sides for pair in pairing.errors), strict=True))
    sides = list(zip(new_ranges, old_ranges, strict=True))
    count, seen = len(deltas) + len(sides), math.fsum(deltas)
    low = math.fsum(new[0] - old[1] for new, old in sides)
    high = math.fsum(new[1] - old[0] for new, old in sides)
    return (seen + low) / count, (seen + high) / count


def _ranges(cases: Sequence[JudgedCase]) -> list[tuple[float, float]]:
    """Return the lowest and the highest possible value of each case."""
    values = iter(values_of([case for case in cases if case.scores]))
    return [
        (value, value) if (value := next(values) if case.scores else None) is not None else (0.0, 1.0) for case in cases
    ]


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
    low: float | None
    """Bounds for other cases of this kind."""
    high: float | None
    again_low: float | None
    """Bounds for these cases, asked again."""
    again_high: float | None
    always: int
    """Cases that passed with all answers."""
    flaky: int
    never: int
    pass_at: float | None
    """Chance that one of k answers passes, k the answers per case; None where cases differ in k or stopped early."""
    pass_all: float | None


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
        pairing = self.comparison.pairing if self.comparison is not None else Pairing()
        return (*self.cases, *pairing.gone, *pairing.skipped)

    def figures(self) -> Iterator[tuple[JudgedCase, BaselineFigures]]:
        """Yield the comparison of each case with the baseline; nothing without a comparison."""
        compared = self.comparison.cases if self.comparison is not None else ()
        found = {(each.case, each.target): each for each in compared if each.state not in ("gone", "skipped")}
        for case in self.cases:
            if (case.name, case.target) in found:
                yield case, found[case.name, case.target].figures

    def contract(self) -> JsonObject:
        """Return the JSON of `<results>.verdict.json`; keys without a value are left out."""
        rate, comparison, names = self.rate, self.comparison, CaseNames(self.known_cases)
        values: dict[str, object] = {"verdict": self.verdict, "reasons": list(self.reasons)}
        if rate is not None:
            values |= {"n": rate.n, "units": rate.units, "mean": rate.mean, "low": rate.low, "high": rate.high}
            values |= {"again_low": rate.again_low, "again_high": rate.again_high}
        values |= {"level": LEVEL, "errors": list(map(names.of, self.errors))}
        if comparison is not None:
            values |= _comparison_contract(comparison, names)
        return {key: value for key, value in values.items() if value is not None}


def _comparison_contract(comparison: RunComparison, names: CaseNames) -> dict[str, object]:
    difference, pairing = comparison.difference, comparison.pairing
    values: dict[str, object] = {}
    if difference is not None:
        low, high = _bounds(difference.estimate.interval)
        values |= {"delta": difference.estimate.mean, "delta_low": low, "delta_high": high}
        values |= {"differ": difference.differing, "least_drop": comparison.least_drop}
    values |= {
        "broke": [names.of(pair.new) for pair, _ in comparison.broken_pairs],
        "gone": list(map(names.of, pairing.gone)),
        "skipped": list(map(names.of, pairing.skipped)),
        "changed": list(map(names.of, pairing.changed)),
        "new": list(map(names.of, pairing.new)),
        "unconfirmed": [names.of(pair.new) for pair in comparison.unconfirmed],
    }
    if comparison.baseline is not None:
        values |= {"baseline_sha256": comparison.baseline.sha256}
    return values | {"cases": [case.to_plain() for case in comparison.cases]}


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
    again = repeat_interval([case.outcomes for case in judged]).interval if is_whole else None
    flaky = sum(is_flaky(case.passes, case.judged) for case in judged)
    never = sum(case.passes == 0 for case in judged)
    return PassRate(
        len(judged),
        run.units,
        run.mean,
        *_bounds(run.interval),
        *_bounds(again),
        always=len(judged) - flaky - never,
        flaky=flaky,
        never=never,
        pass_at=_mean_chance(judged, "any"),
        pass_all=_mean_chance(judged, "all"),
    )


def _bounds(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def _mean_chance(cases: Sequence[JudgedCase], of: Literal["any", "all"]) -> float | None:
    counts = {case.judged for case in cases}
    if len(counts) > 1 or any(case.stopped is not None or case.threshold is None for case in cases):
        return None
    chance, k = (pass_at if of == "any" else pass_all), counts.pop()
    found = [value for case in cases if (value := chance(k, case.passes, case.judged)) is not None]
    return math.fsum(found) / len(cases) if len(found) == len(cases) else None


def compare_with_baseline(
    cases: Sequence[JudgedCase],
    baseline: Baseline,
    name: str,
    *,
    skipped: Sequence[JudgedCase] = (),
    margin: float,
    is_confirming: bool,
) -> RunStatistics:
    """Return the verdict on a run against the baseline of that name. `skipped` cases of it do not count as gone."""
    pairing = pair_cases(cases, baseline.cases, skipped=skipped)
    comparison = compare_runs(cases, baseline.cases, margin=margin, is_confirming=is_confirming, pairing=pairing)
    comparison = comparison.replace(baseline=baseline, baseline_name=name)
    if has_other_judge(cases, baseline):
        comparison = comparison.replace(judge_changed=True, cases=tuple(map(not_compared, comparison.cases)))
    return judge_run(comparison, cases)


def judge_run(comparison: RunComparison, cases: Sequence[JudgedCase]) -> RunStatistics:
    """Return the verdict on a run that was compared: the first of what there is to tell, and the reasons in order."""
    found: list[tuple[RunVerdict, str]] = []
    gone, errors = comparison.pairing.gone, [case for case in cases if case.is_error]
    has_other_reason = comparison.judge_changed or (errors and comparison.pairing.errors)
    if not comparison.pairing.pairs and not has_other_reason:
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
    """Return the tool that separates all failing from all passing answers of a case; None: no tool does.

    It is a hint, not a test.
    """
    if case.tools is None or case.threshold is None or len(case.tools) != case.judged:
        return None
    is_pass = [passing([score], case.threshold) == 1 for score in case.scores]
    if sum(is_pass) != case.passes:
        return None  # a rule beside the scores decided, so it is unknown which answers passed
    passed = [set(tools) for tools, good in zip(case.tools, is_pass, strict=True) if good]
    failed = [set(tools) for tools, good in zip(case.tools, is_pass, strict=True) if not good]
    if not passed or not failed:
        return None
    for tool in sorted(set.union(*passed, *failed)):
        in_passed, in_failed = {tool in tools for tools in passed}, {tool in tools for tools in failed}
        if len(in_passed) == len(in_failed) == 1 and in_passed != in_failed:
            verb, all_of = "call" if tool in failed[0] else "skip", f"{len(failed)} of {len(failed)}"
            return f"failing answers {verb} `{tool}` ({all_of}), passing ones never (0 of {len(passed)})"
    return None


# The variants of a matrix: a pass rate for each, and how far it is from the first.


@dataclass(frozen=True, slots=True)
class Variant(Record):
    """The cases of one combination of a matrix."""

    name: str
    rate: PassRate
    difference: str
    """To the first variant, over the cases that both have: `-35.0 to careful, 95 % CI: -55.0 to -15.0`; else empty."""


def variants_of(cases: Sequence[JudgedCase]) -> list[Variant]:
    """Return the variants of a run in its order, without those that have no judged case; empty for fewer than two."""
    members: dict[str, list[JudgedCase]] = {}
    for case in cases:
        members.setdefault((case.result and case.result.combination) or "", []).append(case)
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
        graded = is_graded([side for pair in pairs for side in (pair.new, pair.old)])
        difference = compare_pairs(deltas_of(pairs), groups_of([pair.new for pair in pairs]), graded=graded)
        interval = difference.estimate.interval
        sure = "" if interval is None else f", 95 % CI: {points(interval.low)} to {points(interval.high)}"
        found.append(Variant(name, rate, f"{points(difference.estimate.mean)} to {first}{sure}"))
    return found


def _without_variant(case: JudgedCase) -> str:
    combination = (case.result and case.result.combination) or ""
    return without_combination(case.node_id or case.eval_id, combination)


def without_combination(node_id: str, combination: str) -> str:
    """Return a node id without its combination: `x`, and `x (2)` for the second case with the id `x`.

    Items with equal names end in a number: `x@gpt-2`. It is not written as `x-2`, because a case may have that id.
    """
    base, at, end = node_id.rpartition(f"@{combination}")
    if not at:
        return node_id
    number = end.removeprefix("-")
    if not end:
        return base
    return f"{base} ({number})" if end != number and number.isdecimal() else node_id


# The section EVALUATION STATISTICS of a run, 80 columns wide.

TITLE: Final = "EVALUATION STATISTICS"
_HINTS: Final = 3
"""The most flaky cases that show a tool hint. Further hints often name the same tool."""


def statistics_lines(
    statistics: RunStatistics, *, verbose: bool = False, no_verdict: str | None = None
) -> Iterator[SummaryLine]:
    """Yield the section of a run. `no_verdict` says why a run did not get the verdict it should get."""
    names = ShortNames(statistics.known_cases)
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
    stopped = sum(case.is_cut_short for case in cases)
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
            low, high = variant.rate.low, variant.rate.high
            interval = "" if low is None or high is None else f"   95 % CI: {bounds(low, high)}"
            yield from wrapped(label, f"{visible(variant.name)} {percent(variant.rate.mean)}{interval}")
            if variant.difference:
                yield from wrapped("", f"   {visible(variant.difference)}")
    elif rate.low is None or rate.high is None:
        yield from plain(f"{first}   one case, or one group of cases: no interval")
    else:
        yield SummaryLine(f"{first:24}95 % CI: {bounds(rate.low, rate.high)}   other cases of this kind")
    if rate.again_low is not None and rate.again_high is not None and not variants:
        yield SummaryLine(f"{'':24}95 % CI: {bounds(rate.again_low, rate.again_high)}   these cases, asked again")
    elif any(case.stopped is not None for case in cases):
        yield SummaryLine(f"{'':24}these cases, asked again: needs --agentv-stop=never")
    if depends_on_number(cases):
        yield SummaryLine("The answers seem to depend on their number: --agentv-stop=never asks for all", "warning")


def _repeat_lines(
    rate: PassRate, cases: Sequence[JudgedCase], names: ShortNames, *, verbose: bool
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
        shown = [f"{names.of(case)} {case.passes}/{case.judged}" for case in flaky]
        yield from wrapped("Flaky:", short_list(shown, verbose=verbose, used=7), indent=7)
    repeated = [case for case in judged if case.judged > 1]
    if repeated and all(case.has_same_texts for case in repeated):
        yield SummaryLine("The answers were always the same text: repeats tell nothing here", "warning")
    hints = [f"{names.of(case)}: {visible(hint)}" for case in judged if (hint := tool_hint(case)) is not None]
    for hint in hints if verbose else hints[:_HINTS]:
        yield from wrapped("Hint", hint)
    if len(hints) > _HINTS and not verbose:
        yield from wrapped("", f"... {len(hints) - _HINTS:,} more: --agentv-verbose")


def comparison_lines(comparison: RunComparison, names: ShortNames, *, verbose: bool) -> Iterator[SummaryLine]:
    size, baseline = "", comparison.baseline
    if baseline is not None:
        target = f", target {visible(baseline.target)}" if baseline.target else ""
        size = f" ({counted(len(baseline.cases), 'case')} x {baseline.repeat}{target})"
    compared = f"{len(comparison.pairing.pairs):,} compared"
    yield from plain(f"Against {visible(comparison.baseline_name)}{size}: {compared}")
    yield from _state_lines(comparison, names, verbose=verbose)
    yield from _difference_lines(comparison)
    for pair, case in comparison.broken_pairs:
        yield from wrapped("BROKEN", f"{names.of(pair.new)}   {_tally(pair)}    q {case.q:.2g}", "fail")
    if comparison.broken_pairs:
        yield from wrapped("", "q: the chance that a case called broken is a false alarm")
    yield from _chance_lines(comparison, names, verbose=verbose)
    if comparison.unconfirmed:
        fresh = [pair.new.confirmation for pair in comparison.unconfirmed]
        few = ", or too few of these answers could be had" if any(each and each.judged for each in fresh) else ""
        text = f"these could not be asked again{few}, so their answers of this run decide: "
        shown = [names.of(pair.new) for pair in comparison.unconfirmed]
        yield from wrapped("Not confirmed", text + short_list(shown, verbose=verbose), "warning")


def _state_lines(comparison: RunComparison, names: ShortNames, *, verbose: bool) -> Iterator[SummaryLine]:
    pairing = comparison.pairing
    groups = {
        "Gone": pairing.gone,
        "Skipped": pairing.skipped,
        "Changed": pairing.changed,
        "New": pairing.new,
        "Not judged": [pair.new for pair in pairing.errors],
    }
    for title, cases in groups.items():
        if cases:
            shown = list(map(names.of, cases))
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
    yield SummaryLine(f"{mean:24}95 % CI: {points(interval.low)} to {points(interval.high)}  {word}")
    differ = f"{counted(difference.differing, 'case')} {'differs' if difference.differing == 1 else 'differ'}"
    if difference.differing:
        differ += f" ({comparison.worse} worse, {comparison.better} better)"
    yield SummaryLine(f"{'':{INDENT}}{differ}")
    if word == "worse" and note:
        yield from wrapped("", note, "warning")
    if comparison.least_drop is not None and comparison.cases_needed is not None:
        needed = f"{counted(comparison.cases_needed, 'case')}{' in groups as now' if comparison.has_groups else ''}"
        margin = f"{comparison.margin * 100:g} points: {needed}"
        yield from wrapped("", f"{comparison.resolution}; for {margin}, see `agentv plan`")
    if depends_on_number([pair.old for pair in comparison.pairing.pairs]):
        text = "the earlier answers seem to depend on their number: --agentv-stop=never asks for all"
        yield from wrapped("", text, "warning")
    if comparison.bounds_with_errors is not None:
        low, high = map(points, comparison.bounds_with_errors)
        total, missing = len(comparison.pairing.pairs), len(comparison.pairing.errors)
        others = f"the other {missing} are" if missing > 1 else "the other one is"
        text = f"on {total} of {total + missing} cases; {low} to {high} whatever {others}"
        yield from wrapped("", text, "warning")


def _chance_lines(comparison: RunComparison, names: ShortNames, *, verbose: bool) -> Iterator[SummaryLine]:
    """List single cases that got worse, but are not called broken."""
    changes = [(case.delta or 0.0, pair) for pair, case in comparison.compared if not case.broke]
    worse = sorted(
        ((delta, pair) for delta, pair in changes if delta < 0), key=lambda each: (each[0], each[1].new.name)
    )
    if worse:
        shown = []
        for delta, pair in worse:
            are_passes = pair.new.threshold is not None and pair.old.threshold is not None
            shown.append(f"{names.of(pair.new)} {_tally(pair) if are_passes else f'{delta:+.2f}'}")
        yield from wrapped("May be chance", short_list(shown, verbose=verbose, used=INDENT))


def _tally(pair: Pair) -> str:
    confirmation = pair.new.confirmation
    again = f", again {confirmation.passes}/{confirmation.judged}" if confirmation is not None else ""
    return f"{pair.old.passes}/{pair.old.judged} -> {pair.new.passes}/{pair.new.judged}{again}"
