"""The figures of a whole run: totals, statistics over scores, and what replaced results cost."""

import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeVar

from pytest_agentv.model.base import Record
from pytest_agentv.model.messages import JudgeMetrics, added_judge_metrics, added_usage
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.text import counted
from pytest_agentv.reports.figures import (
    asked_nothing,
    cost_of,
    format_cost,
    format_duration,
    format_score,
    format_tokens,
    known_answers,
    moment_of,
    tokens_of,
)

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


def total_figures(
    results: Sequence[EvalResult], elapsed_ms: float | None, earlier: Sequence[EvalResult] = ()
) -> Iterator[Figure]:
    """Yield time, cost and tokens of the run, with those of judges apart. Cached answers cost nothing.

    `earlier` are results that later ones replaced. They count because they were paid for.
    """
    yield from _money(results, earlier)
    if earlier:
        from pytest_agentv.reports.judged_cases import name_of_result  # noqa: PLC0415 - few runs need it

        # How often a plugin had cases asked anew, and how many results were replaced for other reasons.
        before, last = ([(name_of_result(each), attempt_of(each)) for each in some] for some in (earlier, results))
        reruns = sum(are_reruns(before, last))
        if reruns:
            yield Figure("Reruns", str(reruns))
        if others := len(earlier) - reruns:
            yield Figure("Replaced", counted(others, "result"))
    cached = sum(bool(result.cached) for result in results)
    if cached:
        yield Figure("From the cache", str(cached))
    if elapsed_ms is not None:
        yield Figure("Time", format_duration(elapsed_ms))


def _money(results: Sequence[EvalResult], earlier: Sequence[EvalResult]) -> Iterator[Figure]:
    paid = [result for result in (*results, *earlier) if not result.cached and not asked_nothing(result)]
    noun = "results" if earlier else "cases"
    judges = added_judge_metrics(result.judge_metrics for result in (*results, *earlier)) or JudgeMetrics(0)
    costs = [cost for result in paid if (cost := cost_of(result)) is not None]
    money = [format_cost(sum(costs)) + _known_for(paid, "priced", noun)] if costs else []
    if judges.cost_usd is not None:
        money.append(f"{format_cost(judges.cost_usd)} for judges{_known_calls(judges.known_costs, judges)}")
    if money:
        yield Figure("Cost", "; ".join(money))
    usage = added_usage(map(tokens_of, paid))
    tokens = [format_tokens(usage) + _known_for(paid, "metered", noun)] if usage else []
    if judges.token_usage is not None:
        known = _known_calls(judges.known_tokens, judges)
        tokens.append(f"{format_tokens(judges.token_usage)} for judges{known}")
    if tokens:
        yield Figure("Tokens", "; ".join(tokens))


def _known_for(results: Sequence[EvalResult], key: Literal["priced", "metered"], noun: str) -> str:
    """Return how many cases a sum covers, or how many answers if it covers only some answers of a case."""
    counts = (known_answers(result, key) for result in results)
    parts = [(known, asked) for known, asked in counts if asked]  # all answers may be from an earlier run
    if any(0 < known < asked for known, asked in parts):
        return f", known for {sum(known for known, _ in parts)} of {sum(asked for _, asked in parts)} answers"
    count = sum(known > 0 for known, _ in parts)
    return "" if count == len(parts) else f", known for {count} of {len(parts)} {noun}"


def _known_calls(known: int, judges: JudgeMetrics) -> str:
    return "" if known == judges.calls else f", known for {known} of {judges.calls} calls"


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


# Tells which of the results that later ones of the same case replaced were paid for apart from these.

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Attempt(Record):
    """What of a result tells whether another one includes its figures."""

    moment: tuple[object, ...]
    """Tells it from others of its case. A line that says it anew, as after a change of tags, has the same."""
    hashes: tuple[str | None, ...]
    """Those of the case, the target and the grading. Answers are carried over only where they are the same."""
    goes_on: bool
    """Whether its figures include those of the answers of earlier results."""
    is_rerun: bool
    """Whether a plugin for reruns had all answers asked anew."""
    asked_nothing: bool
    """Whether its case could not even be asked."""
    is_single_error: bool
    """Whether it is the error of a case that was asked once. No later result includes its figures."""


class Replaced(Generic[K, T]):
    """The results that later ones replaced, without those whose figures a later one includes.

    Those that asked nothing are not among them: a case that stays broken is not asked again.
    """

    def __init__(self, attempt_of: Callable[[T], Attempt]) -> None:
        self._attempt_of = attempt_of
        self._by_case: dict[K, dict[tuple[object, ...], tuple[Attempt, T]]] = {}

    def add(self, case: K, before: T, result: T) -> None:
        """Note that a result of a case replaces the one before. Call it in the order of the lines."""
        old, new = self._attempt_of(before), self._attempt_of(result)
        found = dict(self._by_case.get(case, {}))
        if not old.asked_nothing:
            found.pop(old.moment, None)  # so that it is the last one, as its line is
            found[old.moment] = old, before
        included = {new.moment, *_included_in(new, [attempt for attempt, _ in found.values()])}
        self._by_case[case] = {moment: each for moment, each in found.items() if moment not in included}

    def results(self) -> Iterator[tuple[K, T]]:
        """Yield the results with their cases."""
        for case, found in self._by_case.items():
            for _, result in found.values():
                yield case, result


def _included_in(attempt: Attempt, earlier: Sequence[Attempt]) -> Iterator[tuple[object, ...]]:
    """Yield the moments of those results whose figures a later one includes: of the last one whose answers it took."""
    for each in reversed(earlier) if attempt.goes_on else ():
        if each.hashes[0] is None:
            yield each.moment  # it was ended or broke among the answers: they were kept, and it has no figures itself
        elif each.hashes == attempt.hashes and not each.is_single_error:
            yield each.moment
            if each.goes_on or not each.is_rerun:
                return  # else the answers that the rerun replaced were kept as well


def are_reruns(earlier: Iterable[tuple[K, Attempt]], last: Iterable[tuple[K, Attempt]]) -> list[bool]:
    """Tell for each replaced result whether a plugin for reruns had its case asked anew.

    Only such a plugin has a case asked anew that was judged and has not changed since. `last` are those that count.
    """
    following = dict(last)
    found: list[bool] = []
    for case, attempt in reversed(list(earlier)):
        after = following.get(case)
        is_same = after is not None and after.hashes == attempt.hashes and not after.asked_nothing
        found.append(is_same and not attempt.is_single_error)
        following[case] = attempt
    return found[::-1]


def with_earlier(
    earlier: Iterable[T], name_of: Callable[[T], Hashable], cost_of: Callable[[T], float | None]
) -> Callable[[T], float | None]:
    """Return what reads the cost of a case: that of its last result and of those that it replaced; None: unknown."""
    by_case: dict[Hashable, list[T]] = {}
    for each in earlier:
        by_case.setdefault(name_of(each), []).append(each)

    def cost(last: T) -> float | None:
        costs = [cost_of(each) for each in (last, *by_case.get(name_of(last), ()))]
        known = [each for each in costs if each is not None]
        return math.fsum(known) if len(known) == len(costs) else None

    return cost


def attempt_of(result: EvalResult) -> Attempt:
    return Attempt(
        moment=moment_of(result),
        hashes=(result.case_hash, result.target_hash, result.grading_hash),
        goes_on=result.repeat is not None and result.repeat.goes_on,
        is_rerun=result.repeat is not None and bool(result.repeat.reruns),
        asked_nothing=asked_nothing(result),
        is_single_error=result.repeat is None and result.status == "error",
    )
