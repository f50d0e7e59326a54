"""The lines on the comparison of a run with its baseline."""

from collections.abc import Iterator

from pytest_agentv.models.text import counted
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.reporting.summary import SummaryLine
from pytest_agentv.reporting.verdicts.cases import depends_on_number
from pytest_agentv.reporting.verdicts.columns import (
    INDENT,
    ShortNames,
    interval_bar,
    percent,
    plain,
    points,
    short_list,
    wrapped,
)
from pytest_agentv.reporting.verdicts.comparison import JUDGE_CHANGED, RunComparison
from pytest_agentv.reporting.verdicts.pairing import Pair
from pytest_agentv.reporting.verdicts.parts import parts_of
from pytest_agentv.statistics.pairs import Difference


def comparison_lines(comparison: RunComparison, names: ShortNames, *, verbose: bool) -> Iterator[SummaryLine]:
    """Yield the lines of a comparison with a baseline."""
    yield from plain(_against(comparison))
    yield from _state_lines(comparison, names, verbose=verbose)
    yield from _difference_lines(comparison)
    for pair, case in comparison.broken_pairs:
        yield from wrapped("BROKEN", f"{names.of(pair.new)}   {_tally(pair)}    q {case.q:.2g}", "fail")
    yield from _chance_lines(comparison, names, verbose=verbose)
    yield from _unconfirmed_lines(comparison, names, verbose=verbose)
    if verbose:
        yield from _part_lines(comparison)


def _against(comparison: RunComparison) -> str:
    baseline, pairing = comparison.baseline, comparison.pairing
    compared = f"{len(pairing.pairs):,} compared"
    if baseline is None:
        return f"Against {visible(comparison.baseline_name)}: {compared}"
    target = f", target {visible(baseline.target)}" if baseline.target else ""
    size = f"{counted(len(baseline.cases), 'case')} x {baseline.repeat}{target}"
    return f"Against {visible(comparison.baseline_name)} ({size}): {compared}"


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
    yield SummaryLine(f"{'':{INDENT}}{bar}  {_differing(comparison, difference)}")
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


def _differing(comparison: RunComparison, difference: Difference) -> str:
    differ = f"{counted(difference.differing, 'case')} {'differs' if difference.differing == 1 else 'differ'}"
    return f"{differ} ({comparison.worse} worse, {comparison.better} better)" if difference.differing else differ


def _chance_lines(comparison: RunComparison, names: ShortNames, *, verbose: bool) -> Iterator[SummaryLine]:
    """List single cases that got worse, but are not called broken."""
    changes = [(case.delta or 0.0, pair) for pair, case in comparison.compared if not case.broke]
    worse = sorted(
        ((delta, pair) for delta, pair in changes if delta < 0), key=lambda each: (each[0], each[1].new.name)
    )
    if worse:
        shown = [f"{names.of(pair.new)} {_flip(pair, delta)}" for delta, pair in worse]
        yield from wrapped("May be chance", short_list(shown, verbose=verbose, used=INDENT))


def _unconfirmed_lines(comparison: RunComparison, names: ShortNames, *, verbose: bool) -> Iterator[SummaryLine]:
    """Name the suspects that have no fresh answers."""
    if comparison.unconfirmed:
        fresh = [pair.new.confirmation for pair in comparison.unconfirmed]
        few = ", or too few of these answers could be had" if any(each and each.judged for each in fresh) else ""
        text = f"these could not be asked again{few}, so their answers of this run decide: "
        shown = [names.of(pair.new) for pair in comparison.unconfirmed]
        yield from wrapped("Not confirmed", text + short_list(shown, verbose=verbose), "warning")


def _part_lines(comparison: RunComparison) -> Iterator[SummaryLine]:
    """Yield a row for each file and tag. A row is red only if chance hardly explains it among so many rows."""
    for part in parts_of(comparison.pairing.pairs):
        text = f"{part.n:>4}  {percent(part.mean):>7}  {points(part.delta):>6}  q {part.q:.2f}  {visible(part.name)}"
        yield SummaryLine(text, "fail" if part.stands_out else "plain")


def _flip(pair: Pair, delta: float) -> str:
    if pair.new.threshold is None or pair.old.threshold is None:
        return f"{delta:+.2f}"
    return _tally(pair)


def _tally(pair: Pair) -> str:
    confirmation = pair.new.confirmation
    again = f", again {confirmation.passes}/{confirmation.judged}" if confirmation is not None else ""
    return f"{pair.old.passes}/{pair.old.judged} -> {pair.new.passes}/{pair.new.judged}{again}"
