"""Yields the summary of a run as lines. The caller colours and prints them."""

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from pytest_agentv.errors import locate
from pytest_agentv.model.base import Record, counted
from pytest_agentv.model.results import EvalResult, Spent
from pytest_agentv.reports.figures import (
    LineStyle,
    SummaryLine,
    case_name,
    error_with_kind,
    format_cost,
    format_duration,
    format_score,
    format_tokens,
    known_part,
    place_of,
    spent_of,
    visible,
    wrap,
)
from pytest_agentv.reports.view import RunView

# The figures of a whole run: totals, statistics over scores, and what replaced results cost.

BIN_LABELS: Final = ("0.0-0.2", "0.2-0.4", "0.4-0.6", "0.6-0.8", "0.8-1.0")
EXTREMES: Final = 3
"""Number of cases shown as highest and as lowest."""

_SLACK: Final = 1e-9
"""0.7 - 0.1 is slightly less than 0.6 in floats, but must count as 0.6."""


@dataclass(frozen=True, slots=True)
class ScoreStatistics(Record):
    """The statistics of a summary. They do not depend on the order of the results."""

    mean: float
    median: float
    minimum: float
    maximum: float
    standard_deviation: float | None
    """Of the sample (n - 1); None for a single score."""
    bins: tuple[int, ...]
    """Scores in [0,0.2), [0.2,0.4), [0.4,0.6), [0.6,0.8), [0.8,1]."""


def score_statistics(results: Sequence[EvalResult]) -> ScoreStatistics | None:
    """Return the statistics of the scores of judged results; None without any.

    Source: eval-cli-2026-01, "Statistics and distribution".
    """
    scores = [result.score for result in results if result.status != "error"]
    if not scores:
        return None
    bins = Counter(min(4, max(0, int((score + _SLACK) * 5))) for score in scores)
    return ScoreStatistics(
        mean=statistics.fmean(scores),
        median=statistics.median(scores),
        minimum=min(scores),
        maximum=max(scores),
        standard_deviation=statistics.stdev(scores) if len(scores) > 1 else None,
        bins=tuple(bins[number] for number in range(len(BIN_LABELS))),
    )


def extremes(results: Sequence[EvalResult]) -> tuple[list[EvalResult], list[EvalResult]]:
    """Return the three judged results with the highest scores, best first, and those with the lowest, worst first."""
    judged = [result for result in results if result.status != "error"]
    best, worst = (sorted(judged, key=lambda result: sign * result.score)[:EXTREMES] for sign in (-1, 1))
    return best, worst


# The figures of a whole run, formatted for people. Each report chooses which ones to show.

_LEAST_CASES: Final = 5
_LEAST_MS: Final = 5_000
"""Shorter runs gain little."""
_LEAST_SHARE: Final = 0.8
_MOST_BUSY: Final = 1.05
"""Cases that together took longer than the run did not wait for one another."""
_MOST_WORKERS: Final = 20


Figure: TypeAlias = tuple[str, str]
"""The name of a figure of a run, and its value."""


def score_figures(statistics: ScoreStatistics) -> Iterator[Figure]:
    figures = {
        "Mean score": statistics.mean,
        "Median": statistics.median,
        "Min": statistics.minimum,
        "Max": statistics.maximum,
        "Std deviation": statistics.standard_deviation,
    }
    for name, value in figures.items():
        if value is not None:
            yield (name, format_score(value))


def total_figures(results: Sequence[EvalResult], elapsed_ms: float | None) -> Iterator[Figure]:
    """Yield time, cost and tokens of the run, with those of judges apart. Cached answers cost nothing.

    The last result of a case tells all that was paid for it.
    """
    spent = Spent.added(map(spent_of, results))
    parts = [(spent.answer, ""), *([] if spent.judge is None else [(spent.judge, " for judges")])]
    money = [
        f"{format_cost(costs.cost_usd)}{of}{known_part(costs.cost_known, costs)}"
        for costs, of in parts
        if costs.cost_known
    ]
    if money:
        yield ("Cost", "; ".join(money))
    tokens = [
        f"{format_tokens(costs.usage)}{of}{known_part(costs.tokens_known, costs)}" for costs, of in parts if costs.usage
    ]
    if tokens:
        yield ("Tokens", "; ".join(tokens))
    reruns = sum(result.reruns or 0 for result in results)
    if reruns:
        yield ("Reruns", str(reruns))
    cached = sum(bool(result.cached) for result in results)
    if cached:
        yield ("From the cache", str(cached))
    if elapsed_ms is not None:
        yield ("Time", format_duration(elapsed_ms))


def waiting_hint(results: Sequence[EvalResult], elapsed_ms: float, cpu_ms: float) -> str | None:
    """Return `48 cases one after another, 98 % waiting: try --agentv-workers=20`; None: the run did not wait like this.

    `cpu_ms` is this process's CPU time, which more workers do not shorten.
    """
    asked = [result for result in results if result.duration_ms is not None and not result.cached]
    busy_ms = math.fsum(result.duration_ms or 0 for result in asked)
    if len(asked) < _LEAST_CASES or elapsed_ms < _LEAST_MS or busy_ms > _MOST_BUSY * elapsed_ms:
        return None
    share = min(busy_ms, elapsed_ms - cpu_ms) / elapsed_ms
    if share < _LEAST_SHARE:
        return None
    workers = min(_MOST_WORKERS, len(asked))
    return f"{len(asked)} cases one after another, {share:.0%} waiting: try --agentv-workers={workers}".replace(
        "%", " %"
    )


# Yields the summary of a run as lines. The caller colours and prints them.
#
# Source: eval-cli-2026-01, "Summary Reporting".

FULL_SUMMARY: Final = "AGENTV_FULL_SUMMARY"
"""The variable that `agentv eval` sets for the run: its summary has all statistics."""

_WIDTH: Final = 80
_BAR_WIDTH: Final = 40
_ERROR_LINES: Final = 4
_LONGEST_ERROR: Final = 1_000


def summary_lines(
    run: RunView,
    *,
    results_path: Path | None = None,
    shown_errors: Collection[str] = (),
    with_statistics: bool = False,
) -> Iterator[SummaryLine]:
    """Yield the summary of a run's results (already masked): first the errors, then the figures.

    `shown_errors` are the node ids of the cases whose errors pytest has shown in full. `with_statistics`: show also the
    distribution of the scores, and the highest and lowest ones.
    """
    results = run.results
    if not results:
        yield SummaryLine("No results to summarize")
        return
    yield from _error_lines([each for each in run.outcomes("error") if each.node_id not in shown_errors])
    yield SummaryLine("EVALUATION SUMMARY", "title")
    if run.is_mocked:
        yield SummaryLine("Dry run: answers and judgements were mocked, so the scores mean nothing.", "warning")
    counts = Counter(map(run.ending.outcome, results))
    style: LineStyle = "error" if counts["error"] else "fail" if counts["fail"] else "pass"
    expected = f"{counts['expected']:,} {run.expected_words}, " if counts["expected"] else ""
    text = f"{counts['pass']:,} passed, {counts['fail']:,} failed, {expected}{counted(counts['error'], 'error')}"
    yield SummaryLine(f"Total eval cases: {len(results):,} ({text})", style)
    spoilt = sum(1 for each in results if each.error_detail and each.error_detail.kind == "user_at_fault")
    if spoilt:
        text = f"{counted(spoilt, 'conversation')}: these errors are not the target's"
        yield SummaryLine(f"User at fault:    {text}", "error")
    statistics = score_statistics(results)
    scores = list(score_figures(statistics)) if statistics else []
    is_green = counts["pass"] == len(results)
    for name, value in [*(scores if with_statistics else scores[:1]), *total_figures(results, run.elapsed_ms)]:
        if name != "Time" or not is_green or with_statistics:
            yield SummaryLine(f"{name + ':':<17} {value}")
    if statistics and with_statistics:
        yield from _distribution_lines(statistics)
        for title, listed in zip(("Top", "Lowest"), extremes(results), strict=True):
            yield from _extreme_lines(f"{title} performing eval cases:", listed)
    if any(result.combination is not None for result in results):
        from pytest_agentv.reports.compare import combination_lines  # noqa: PLC0415 - only for runs with a matrix

        for index, line in enumerate(combination_lines(results)):
            yield SummaryLine(line, "plain" if index else "heading")
    if results_path:
        yield SummaryLine(f"Results written to: {locate(results_path, None)}")


def _error_lines(errors: Sequence[EvalResult]) -> Iterator[SummaryLine]:
    if errors:
        yield SummaryLine("ERRORS", "title")
    previous = None
    for result in errors:
        yield SummaryLine(_label(result), "error")
        # A missing API key breaks every case in the same way, so the same error is shown once.
        text = "the same error as above"
        if result.error != previous:
            error = error_with_kind(result).strip()
            text = visible(error if len(error) <= _LONGEST_ERROR else f"{error[:_LONGEST_ERROR]}...")
        lines = wrap(text, _WIDTH - 2)
        if len(lines) > _ERROR_LINES:
            lines[_ERROR_LINES - 1 :] = ["... (the full text is in the results file)"]
        yield from (SummaryLine(f"  {line}".rstrip()) for line in lines)
        if result.eval_file:
            yield SummaryLine(f"  {visible(place_of(result))}")
        previous = result.error


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
