"""The section EVALUATION STATISTICS of a run, 80 columns wide."""

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_agentv.models.text import counted
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.reporting.summary import SummaryLine
from pytest_agentv.reporting.verdicts.cases import JudgedCase, depends_on_number, measure_of
from pytest_agentv.reporting.verdicts.columns import ShortNames, bounds, percent, plain, short_list, wrapped
from pytest_agentv.reporting.verdicts.comparison_lines import comparison_lines
from pytest_agentv.reporting.verdicts.hints import tool_hint
from pytest_agentv.reporting.verdicts.run_statistics import PassRate, RunStatistics
from pytest_agentv.statistics.repeats import is_flaky

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
        yield from plain(text + _chances(rate, judged[0].judged))
    flaky = [case for case in judged if is_flaky(case.passes, case.judged)]
    if flaky:
        flaky.sort(key=lambda case: (round(abs(case.value - 0.5), 9), case.name))
        shown = [f"{names.of(case)} {case.passes}/{case.judged}" for case in flaky]
        yield from wrapped("Flaky:", short_list(shown, verbose=verbose, used=7), indent=7)
    repeated = [case for case in judged if case.judged > 1]
    if repeated and all(case.has_same_texts for case in repeated):
        yield SummaryLine("The answers were always the same text: repeats tell nothing here", "warning")
    yield from _hint_lines(judged, names, verbose=verbose)


def _hint_lines(cases: Sequence[JudgedCase], names: ShortNames, *, verbose: bool) -> Iterator[SummaryLine]:
    hints = [f"{names.of(case)}: {visible(hint)}" for case in cases if (hint := tool_hint(case)) is not None]
    for hint in hints if verbose else hints[:_HINTS]:
        yield from wrapped("Hint", hint)
    if len(hints) > _HINTS and not verbose:
        yield from wrapped("", f"... {len(hints) - _HINTS:,} more: --agentv-verbose")


def _chances(rate: PassRate, k: int) -> str:
    if rate.pass_at is None or rate.pass_all is None:
        return ""
    return f"; pass@{k} {percent(rate.pass_at)}, pass^{k} {percent(rate.pass_all)}"
