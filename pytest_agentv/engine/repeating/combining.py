"""Combines the results of a case's answers into one result."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from pytest_agentv.engine.repeating.plan import RepeatPlan
from pytest_agentv.engine.scoring import Threshold
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.results import EvalResult, RepeatFigures
from pytest_agentv.models.text import counted
from pytest_agentv.models.traces import ExecutionMetrics, added_judge_metrics, added_usage
from pytest_agentv.statistics.intervals import wilson
from pytest_agentv.statistics.repeats import Verdict, is_flaky, pass_rate, passing, verdict

_CASE_FIELDS: Final = frozenset(
    {
        *("eval_id", "dataset", "conversation_id", "target", "schema_version", "threshold", "threshold_source"),
        *("node_id", "run_id", "eval_file", "line", "case_hash", "target_hash", "grading_hash", "required", "group"),
        *("xfail", "xfail_strict", "tags", "judge", "expected_outcome", "reference_answer"),
        "in_baseline",
    }
)
"""Keys of a result that are the same for all answers of a case."""


def combine_answers(
    results: Sequence[EvalResult],
    plan: RepeatPlan,
    *,
    together: bool,
    reruns: int = 0,
    carried: int = 0,
    lost: Sequence[EvalResult] = (),
    with_answers: bool = False,
) -> EvalResult:
    """Return the result of a case from the results of its answers. There must be at least one.

    Args:
        results: In the order of the answers.
        plan: How many answers were planned, and how many have to pass.
        together: Whether all were asked at once, without waiting for the verdict on others.
        reruns: How often the case was asked before.
        carried: How many of the answers come from an earlier run.
        lost: Answers that failed or could not be judged in earlier runs. Their metrics count as well.
        with_answers: Whether the result holds all answers.
    """
    broken = next((result for result in results if is_set_up_error(result)), None)
    if broken is not None:
        return broken  # the target cannot be asked; the result says why
    judged = [result for result in results if result.status != "error"]
    decided = plan.verdict(results) if judged else None
    figures = repeat_figures(results, plan, None if together else plan.stopped(results))
    figures = figures.replace(reruns=reruns or None, carried=carried or None, lost=len(lost) or None)
    base = _shown(results, decided)
    status = decided or "error"
    combined = base.replace(
        status=status,
        score=math.fsum(result.score for result in judged) / len(judged) if judged else 0.0,
        assertion=base.assertion if status == "fail" else None,
        repeat=figures,
        answers=tuple(_own_part(result) for result in results) if with_answers else None,
        timestamp=max(result.timestamp for result in results),
        in_baseline=next((result.in_baseline for result in results if result.in_baseline), None),
        **_sums([*results, *lost]),
    )
    if status != "error":
        return combined
    message = _open_text(results, figures)
    return combined.replace(error=message, misses=(f"Error: {message}",))


def confirmed_by(result: EvalResult, fresh: Sequence[EvalResult], plan: RepeatPlan) -> EvalResult:
    """Add fresh answers of a case to its result. They change its metrics, but not its verdict."""
    figures = result.repeat or repeat_figures([result], plan.replace(answers=1), None)
    both = [result, *fresh]
    is_cached = all(each.cached for each in both)
    total = added_metrics(_counted(both))
    parts = (figures, result.execution_metrics), (repeat_figures(fresh, plan, None), added_metrics(_counted(fresh)))
    first, confirm = (_with_zeros(each, own, total, is_cached=is_cached) for each, own in parts)
    return result.replace(
        repeat=first.replace(confirm=confirm),
        attempts=sum(each.attempts for each in both),
        execution_metrics=total,
        judge_metrics=added_judge_metrics(each.judge_metrics for each in both),
        cached=is_cached or None,
    )


def _with_zeros(
    figures: RepeatFigures, own: ExecutionMetrics | None, total: ExecutionMetrics | None, *, is_cached: bool
) -> RepeatFigures:
    """Set `priced` or `metered` to 0 if only the other answers report a cost or tokens: None means all or none."""
    if total is None:
        return figures
    if figures.asked == figures.cached and not is_cached:  # the total counts only answers that were paid for
        return figures.replace(priced=None, metered=None)
    is_priced = total.cost_usd is None or (own is not None and own.cost_usd is not None)
    is_metered = total.token_usage is None or (own is not None and own.token_usage is not None)
    return figures.replace(priced=figures.priced if is_priced else 0, metered=figures.metered if is_metered else 0)


def repeat_figures(results: Sequence[EvalResult], plan: RepeatPlan, stopped: Verdict | None) -> RepeatFigures:
    """Return the counts and scores of the answers of a case."""
    judged = [result for result in results if result.status != "error"]
    passes = sum(result.status == "pass" for result in judged)
    tools = tuple(result.trace_summary.tool_names if result.trace_summary else () for result in judged)
    counted = [result.execution_metrics for result in _counted(results)]
    return RepeatFigures(
        planned=plan.answers,
        asked=len(results),
        judged=len(judged),
        errors=len(results) - len(judged),
        scores=tuple(result.score for result in judged),
        same_text=len({result.candidate_answer for result in judged}) == 1 if len(judged) > 1 else None,
        tools=tools if any(tools) else None,
        cached=sum(bool(result.cached) for result in results) or None,
        priced=_count_if_mixed(metrics is not None and metrics.cost_usd is not None for metrics in counted),
        metered=_count_if_mixed(metrics is not None and metrics.token_usage is not None for metrics in counted),
        error_numbers=tuple(number for number, each in enumerate(results) if each.status == "error") or None,
        beyond_scores=any(each.assertion is not None or each.unmet_required for each in judged) or None,
        **_rates(passes, len(judged), plan, stopped),
    )


def judged_anew(result: EvalResult, plan: RepeatPlan, threshold: Threshold) -> EvalResult | None:
    """Judge a kept result by the current rules. Returns None if its answers do not suffice.

    They do not suffice if the rules require more answers, or if hooks decided some of them.
    """
    figures, before = result.repeat, result.threshold
    if figures is None or before is None or figures.planned != plan.answers:
        return None
    is_same = threshold.value == before
    if not is_same and (figures.beyond_scores or figures.passes != passing(figures.scores, before)):
        return None
    passes = figures.passes if is_same else passing(figures.scores, threshold.value)
    decided = verdict(passes, figures.judged - passes, plan.answers, plan.min_pass_rate)
    if decided is None or (figures.asked < plan.answers and not plan.stops_early):
        return None
    result = result.replace(status=decided, threshold=threshold.value, threshold_source=threshold.source)
    stopped = _kept_stop(figures, threshold, is_same=is_same) if plan.stops_early else None  # else all were asked
    return result.replace(repeat=figures.replace(**_rates(passes, figures.judged, plan, stopped)))


def _kept_stop(figures: RepeatFigures, threshold: Threshold, *, is_same: bool) -> Verdict | None:
    """Return how the last answer counts if it ended the case: those rules decided how many answers there are."""
    if figures.stopped is None:
        return None
    is_pass = figures.stopped == "certain pass" if is_same else passing(figures.scores[-1:], threshold.value) == 1
    return "pass" if is_pass else "fail"


def added_metrics(results: Iterable[EvalResult]) -> ExecutionMetrics | None:
    """Add up tokens, US dollars and milliseconds of answers."""
    found = [result.execution_metrics for result in results if result.execution_metrics is not None]
    if not found:
        return None
    durations: dict[str, tuple[float, ...]] = {}
    for metrics in found:
        for tool, times in (metrics.tool_durations or {}).items():
            durations[tool] = (*durations.get(tool, ()), *times)
    return ExecutionMetrics(
        token_usage=added_usage(metrics.token_usage for metrics in found),
        cost_usd=_sum(metrics.cost_usd for metrics in found),
        duration_ms=_sum(metrics.duration_ms for metrics in found),
        tool_durations=durations or None,
    )


def _shown(results: Sequence[EvalResult], decided: Verdict | None) -> EvalResult:
    """Return the answer that the result shows: the first failing one, else the first; of an error, the first error."""
    if decided is None:
        return next(result for result in results if result.status == "error")
    judged = [result for result in results if result.status != "error"]
    return next((result for result in judged if result.status == "fail"), judged[0])


def _rates(passes: int, judged: int, plan: RepeatPlan, stopped: Verdict | None) -> JsonObject:
    """Return the counts of a case's judged answers, by the names of its fields."""
    rate = pass_rate(passes, judged, stopped) if judged else None
    interval = None if rate is None else wilson(rate, judged)
    return {
        "passes": passes,
        "needed": plan.needed,
        "min_pass_rate": plan.min_pass_rate,
        "min_pass_rate_source": plan.min_pass_rate_source,
        "stopped": None if stopped is None else "certain pass" if stopped == "pass" else "certain fail",
        "pass_rate": rate,
        "pass_rate_low": None if interval is None else interval.low,
        "pass_rate_high": None if interval is None else interval.high,
        "flaky": is_flaky(passes, judged),
    }


def is_set_up_error(result: EvalResult) -> bool:
    """Whether the set-up of a case failed, so that asking again would fail too."""
    return result.error_detail is not None and result.error_detail.stage == "setup"


def _open_text(results: Sequence[EvalResult], figures: RepeatFigures) -> str:
    """Return why there is no verdict, such as `3 answers pass, 4 of 5 are needed, 2 could not be had (HTTP 503)`."""
    passes = counted(figures.passes, "answer passes", "answers pass")
    needed = f"{figures.needed} of {figures.planned} {'is' if figures.needed == 1 else 'are'} needed"
    skipped = figures.planned - figures.asked
    left = f", {skipped} more would not decide it" if skipped else ""
    first, *others = dict.fromkeys(result.error.strip().partition("\n")[0] for result in results if result.error)
    why = f"{first}, and {len(others)} more" if others else first
    return f"cannot be judged: {passes}, {needed}, {figures.errors} could not be had ({why}){left}"


def case_fields(result: EvalResult) -> JsonObject:
    """Return the keys of a result that are the same for all answers of its case."""
    return {key: value for key, value in result.to_plain().items() if key in _CASE_FIELDS}


def _own_part(result: EvalResult) -> JsonObject:
    return {key: value for key, value in result.to_plain().items() if key not in _CASE_FIELDS}


def _sums(results: Sequence[EvalResult]) -> JsonObject:
    """Add up the metrics of all answers."""
    return {
        "attempts": sum(result.attempts for result in results),
        "request_attempts": _sum(result.request_attempts for result in results),
        "waited_ms": _sum(result.waited_ms for result in results),
        "judge_retries": _sum(result.judge_retries for result in results),
        "duration_ms": _sum(result.duration_ms for result in results),
        "execution_metrics": added_metrics(_counted(results)),
        "judge_metrics": added_judge_metrics(result.judge_metrics for result in results),
        "cached": all(result.cached for result in results) or None,
    }


def _counted(results: Sequence[EvalResult]) -> Sequence[EvalResult]:
    """Return the answers whose metrics count: cached ones only if no other answer was paid for."""
    return [result for result in results if not result.cached] or results


def _count_if_mixed(known: Iterable[bool]) -> int | None:
    """Return how many are known; None if all or none are."""
    flags = list(known)
    return sum(flags) if any(flags) and not all(flags) else None


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
