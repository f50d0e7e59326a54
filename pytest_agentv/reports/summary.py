"""Yields the summary of a run as lines. The caller colours and prints them.

Source: eval-cli-2026-01, "Summary Reporting".
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pytest_agentv.errors import locate
from pytest_agentv.model.base import Record
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.text import counted
from pytest_agentv.reports.figures import LineStyle, SummaryLine, case_name, format_score, place_of, visible, wrap
from pytest_agentv.reports.totals import (
    BIN_LABELS,
    EXTREMES,
    Figure,
    ScoreStatistics,
    judged_results,
    lowest_results,
    score_figures,
    score_statistics,
    top_results,
    total_figures,
)

_WIDTH: Final = 80
_BAR_WIDTH: Final = 40
_ERROR_LINES: Final = 4
_LONGEST_ERROR: Final = 1_000


@dataclass(frozen=True, slots=True)
class Outcomes(Record):
    """How pytest reported items with an `xfail` mark, by node id."""

    expected_failures: frozenset[str] = frozenset()
    unexpected_passes: frozenset[str] = frozenset()
    """Items with a strict mark, which failed because they passed."""
    expected_words: str = "failed as expected"

    def of(self, result: EvalResult) -> Literal["pass", "fail", "error", "expected"]:
        """Return the outcome that a result counts as."""
        if result.status == "pass":
            return "fail" if result.node_id in self.unexpected_passes else "pass"
        is_expected = result.status == "fail" and result.node_id in self.expected_failures
        return "expected" if is_expected else result.status


_AS_SCORED: Final = Outcomes()


def summary_lines(
    results: Sequence[EvalResult],
    *,
    results_path: Path | None = None,
    dry_run: bool = False,
    elapsed_ms: float | None = None,
    outcomes: Outcomes = _AS_SCORED,
    shown_errors: Collection[str] = (),
) -> Iterator[SummaryLine]:
    """Yield the summary of a run's results (already masked): first the errors, then the figures.

    `shown_errors` are the node ids of cases whose errors pytest has shown in full. A run without failures gets at most
    eight lines, and the table of its combinations.
    """
    if not results:
        yield SummaryLine("No results to summarize")
        return
    yield from _error_lines([result for result in results if result.status == "error"], shown_errors)
    yield SummaryLine("EVALUATION SUMMARY", "title")
    if dry_run:
        yield SummaryLine("Dry run: answers and judgements were mocked, so the scores mean nothing.", "warning")
    counts = Counter(map(outcomes.of, results))
    style: LineStyle = "error" if counts["error"] else "fail" if counts["fail"] else "pass"
    expected = f"{counts['expected']:,} {outcomes.expected_words}, " if counts["expected"] else ""
    text = f"{counts['pass']:,} passed, {counts['fail']:,} failed, {expected}{counted(counts['error'], 'error')}"
    yield SummaryLine(f"Total eval cases: {len(results):,} ({text})", style)
    statistics = score_statistics([result.score for result in judged_results(results)])
    scores = list(score_figures(statistics)) if statistics else []
    totals = list(total_figures(results, elapsed_ms))
    if all(outcomes.of(result) == "pass" for result in results):
        yield from _figure_lines([*_joined(scores), *(figure for figure in totals if figure.name != "Time")])
    else:
        yield from _figure_lines([*scores, *totals])
        if statistics and statistics.minimum < statistics.maximum:
            yield from _distribution_lines(statistics)
            if len(judged_results(results)) > EXTREMES:  # else the best cases are also the worst
                yield from _extreme_lines("Top performing eval cases:", top_results(results))
            yield from _extreme_lines("Lowest performing eval cases:", lowest_results(results))
    if any(result.combination is not None for result in results):
        from pytest_agentv.reports.runs_table import combination_lines  # noqa: PLC0415 - only for runs with a matrix

        for index, text in enumerate(combination_lines(results)):
            yield SummaryLine(text, "plain" if index else "heading")
    if results_path:
        yield SummaryLine(f"Results written to: {locate(results_path, None)}")


def _error_lines(errors: Sequence[EvalResult], shown_errors: Collection[str]) -> Iterator[SummaryLine]:
    if errors:
        yield SummaryLine("ERRORS", "title")
    previous = None
    for result in errors:
        yield SummaryLine(_label(result), "error")
        # A missing API key breaks every case in the same way, so the same error is shown once.
        text = "the same error as above"
        if result.error != previous:
            error = (result.error or "unknown error").strip()
            text = visible(error if len(error) <= _LONGEST_ERROR else f"{error[:_LONGEST_ERROR]}...")
            if result.error_detail:
                text = f"[{result.error_detail.stage}, {result.error_detail.kind}] {text}"
        lines = wrap(text, _WIDTH - 2)
        is_shown_by_pytest = result.node_id in shown_errors
        if is_shown_by_pytest:
            lines = lines[:1] if len(lines) == 1 else [f"{wrap(lines[0], _WIDTH - 6)[0]} ..."]
        elif len(lines) > _ERROR_LINES:
            lines[_ERROR_LINES - 1 :] = ["... (the full text is in the results file)"]
        yield from (SummaryLine(f"  {line}".rstrip()) for line in lines)
        if result.eval_file and not is_shown_by_pytest:
            yield SummaryLine(f"  {visible(place_of(result))}")
        previous = result.error


def _joined(scores: Sequence[Figure]) -> Iterator[Figure]:
    """Yield the figures of scores as one line; the mean alone if all scores are the same."""
    if scores:
        first, *others = scores
        is_one = all(each.value == first.value for each in others if each.name in ("Min", "Max"))
        rest = [] if is_one else [f"{each.name[0].lower()}{each.name[1:]} {each.value}" for each in others]
        yield Figure(first.name, ", ".join([first.value, *rest]))


def _figure_lines(figures: Iterable[Figure]) -> Iterator[SummaryLine]:
    for figure in figures:
        yield SummaryLine(f"{figure.name + ':':<17} {figure.value}")


def _distribution_lines(statistics: ScoreStatistics) -> Iterator[SummaryLine]:
    yield SummaryLine("Score distribution:", "heading")
    largest = max(statistics.bins)
    digits = len(str(largest))
    for label, count in zip(BIN_LABELS, statistics.bins, strict=True):
        bar = "#" * -(-count * _BAR_WIDTH // max(largest, _BAR_WIDTH))
        yield SummaryLine(f"  {label}: {count:>{digits}}  {bar}".rstrip())


def _extreme_lines(heading: str, results: Sequence[EvalResult]) -> Iterator[SummaryLine]:
    yield SummaryLine(heading, "heading")
    for rank, result in enumerate(results, start=1):
        label = _label(result)
        space = _WIDTH - 12
        name = label if len(label) <= space else f"...{label[3 - space :]}"
        style: LineStyle = "pass" if result.status == "pass" else "fail"
        yield SummaryLine(f"  {rank}. {format_score(result.score)}  {name}", style)


def _label(result: EvalResult) -> str:
    return visible(case_name(result)).replace("\n", " ")
