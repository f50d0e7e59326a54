"""The section EVALUATION STATISTICS of a run, 80 columns wide."""

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_agentv.model.text import counted
from pytest_agentv.reports.columns import (
    INDENT,
    ShortNames,
    bounds,
    interval_bar,
    percent,
    plain,
    points,
    short_list,
    wrapped,
)
from pytest_agentv.reports.figures import SummaryLine, visible
from pytest_agentv.reports.judged_cases import JudgedCase, Pair, depends_on_number, measure_of
from pytest_agentv.reports.verdict import JUDGE_CHANGED, PassRate, RunComparison, RunStatistics, parts_of, tool_hint
from pytest_agentv.stats.intervals import is_flaky

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
    if rate.low is None or rate.high is None:
        yield from plain(f"{first}   one case, or one group of cases: no interval")
    else:
        yield SummaryLine(f"{first:24}95 %: {bounds(rate.low, rate.high)}   other cases of this kind")
    if rate.again_low is not None and rate.again_high is not None:
        yield SummaryLine(f"{'':24}95 %: {bounds(rate.again_low, rate.again_high)}   these cases, asked again")
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
    yield from _chance_lines(comparison, names, verbose=verbose)
    if comparison.unconfirmed:
        fresh = [pair.new.confirmation for pair in comparison.unconfirmed]
        few = ", or too few of these answers could be had" if any(each and each.judged for each in fresh) else ""
        text = f"these could not be asked again{few}, so their answers of this run decide: "
        shown = [names.of(pair.new) for pair in comparison.unconfirmed]
        yield from wrapped("Not confirmed", text + short_list(shown, verbose=verbose), "warning")
    for part in parts_of(comparison.pairing.pairs) if verbose else ():
        text = f"{part.n:>4}  {percent(part.mean):>7}  {points(part.delta):>6}  q {part.q:.2f}  {visible(part.name)}"
        # Red only if chance hardly explains it among so many rows.
        yield SummaryLine(text, "fail" if part.stands_out else "plain")


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
    yield SummaryLine(f"{mean:24}95 %: {points(interval.low)} to {points(interval.high)}  {comparison.change}")
    bar = interval_bar(interval, difference.estimate.mean)
    differ = f"{counted(difference.differing, 'case')} {'differs' if difference.differing == 1 else 'differ'}"
    if difference.differing:
        differ += f" ({comparison.worse} worse, {comparison.better} better)"
    yield SummaryLine(f"{'':{INDENT}}{bar}  {differ}")
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
