"""Yields the summary of a run as lines. The caller colours and prints them."""

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pytest_agentv.errors import locate
from pytest_agentv.model.base import Record, counted
from pytest_agentv.model.messages import Costs
from pytest_agentv.model.results import EvalResult, Spent
from pytest_agentv.reports.figures import (
    LineStyle,
    SummaryLine,
    case_name,
    format_cost,
    format_duration,
    format_score,
    format_tokens,
    place_of,
    spent_of,
    visible,
    wrap,
)

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
    bins: tuple[int, int, int, int, int]
    """Scores in [0,0.2), [0.2,0.4), [0.4,0.6), [0.6,0.8), [0.8,1]."""


def score_statistics(scores: Sequence[float]) -> ScoreStatistics | None:
    """Return the statistics of some scores; None without scores.

    Source: eval-cli-2026-01, "Statistics and distribution".
    """
    if not scores:
        return None
    bins = [min(4, max(0, int((score + _SLACK) * 5))) for score in scores]
    return ScoreStatistics(
        mean=statistics.fmean(scores),
        median=statistics.median(scores),
        minimum=min(scores),
        maximum=max(scores),
        standard_deviation=statistics.stdev(scores) if len(scores) > 1 else None,
        bins=(bins.count(0), bins.count(1), bins.count(2), bins.count(3), bins.count(4)),
    )


def judged_results(results: Sequence[EvalResult]) -> list[EvalResult]:
    return [result for result in results if result.status != "error"]


def top_results(results: Sequence[EvalResult]) -> list[EvalResult]:
    """Return the three judged results with the highest scores, best first."""
    return sorted(judged_results(results), key=lambda result: -result.score)[:EXTREMES]


def lowest_results(results: Sequence[EvalResult]) -> list[EvalResult]:
    """Return the three judged results with the lowest scores, worst first."""
    return sorted(judged_results(results), key=lambda result: result.score)[:EXTREMES]


# The figures of a whole run, formatted for people. Each report chooses which ones to show.

_LEAST_CASES: Final = 5
_LEAST_MS: Final = 5_000
"""Shorter runs gain little."""
_LEAST_SHARE: Final = 0.8
_MOST_AT_ONCE: Final = 0.05
"""Cases whose times overlap by more did not wait for one another."""
_MOST_WORKERS: Final = 20


@dataclass(frozen=True, slots=True)
class Figure(Record):
    """One figure of a run."""

    name: str
    value: str


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
            yield Figure(name, format_score(value))


def total_figures(results: Sequence[EvalResult], elapsed_ms: float | None) -> Iterator[Figure]:
    """Yield time, cost and tokens of the run, with those of judges apart. Cached answers cost nothing.

    The last result of a case tells all that was paid for it.
    """
    spent = Spent.added(map(spent_of, results))
    parts = [(spent.answer, ""), *([] if spent.judge is None else [(spent.judge, " for judges")])]
    money = [
        f"{format_cost(costs.cost_usd)}{of}{_known_for(costs.cost_known, costs)}"
        for costs, of in parts
        if costs.cost_known
    ]
    if money:
        yield Figure("Cost", "; ".join(money))
    tokens = [
        f"{format_tokens(costs.usage)}{of}{_known_for(costs.tokens_known, costs)}" for costs, of in parts if costs.usage
    ]
    if tokens:
        yield Figure("Tokens", "; ".join(tokens))
    reruns = sum(result.reruns or 0 for result in results)
    if reruns:
        yield Figure("Reruns", str(reruns))
    cached = sum(bool(result.cached) for result in results)
    if cached:
        yield Figure("From the cache", str(cached))
    if elapsed_ms is not None:
        yield Figure("Time", format_duration(elapsed_ms))


def _known_for(known: int, costs: Costs) -> str:
    return "" if known == costs.calls else f", known for {known:,} of {costs.calls:,} calls"


def waiting_hint(results: Sequence[EvalResult], elapsed_ms: float, cpu_ms: float) -> str | None:
    """Return `48 cases one after another, 98 % waiting: try --agentv-workers=20`; None: the run did not wait like this.

    `cpu_ms` is this process's CPU time, which more workers do not shorten.
    """
    asked = [result for result in results if result.duration_ms is not None and not result.cached]
    busy_ms = math.fsum(result.duration_ms or 0 for result in asked)
    if len(asked) < _LEAST_CASES or elapsed_ms < _LEAST_MS or _at_once_ms(asked) > _MOST_AT_ONCE * busy_ms:
        return None
    share = min(busy_ms, elapsed_ms - cpu_ms) / elapsed_ms
    if share < _LEAST_SHARE:
        return None
    workers = min(_MOST_WORKERS, len(asked))
    return f"{len(asked)} cases one after another, {share:.0%} waiting: try --agentv-workers={workers}".replace(
        "%", " %"
    )


def _at_once_ms(results: Sequence[EvalResult]) -> float:
    """Return by how much the times of cases overlap. A case was at work for `duration_ms` before its timestamp."""
    from pytest_agentv.reports.judged_cases import ended_at  # noqa: PLC0415 - long runs need it

    overlap_ms, busy_until = 0.0, -math.inf
    ends = ((time.timestamp() * 1000, each) for each in results if (time := ended_at(each.timestamp)) is not None)
    for start, end in sorted((end - (each.duration_ms or 0), end) for end, each in ends):
        overlap_ms += max(0.0, min(end, busy_until) - start)
        busy_until = max(busy_until, end)
    return overlap_ms


# Yields the summary of a run as lines. The caller colours and prints them.
#
# Source: eval-cli-2026-01, "Summary Reporting".

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
    spoilt = sum(1 for each in results if each.error_detail and each.error_detail.kind == "user_at_fault")
    if spoilt:
        text = f"{counted(spoilt, 'conversation')}: these errors are not the target's"
        yield SummaryLine(f"User at fault:    {text}", "error")
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
        from pytest_agentv.reports.compare import combination_lines  # noqa: PLC0415 - only for runs with a matrix

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
