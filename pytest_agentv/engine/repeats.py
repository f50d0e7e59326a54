"""Cases with several answers: plans them, combines their results, and splits a result into its answers."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.results import chosen_limit
from pytest_agentv.model.base import Record, counted
from pytest_agentv.model.messages import ExecutionMetrics, added_usage
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.results import RESULT_FIELDS, EvalResult, RepeatFigures
from pytest_agentv.stats.intervals import Verdict, is_flaky, needed_passes, pass_rate, verdict, wilson

# How many answers of a case to ask for, and when its verdict is certain.


@dataclass(frozen=True, slots=True)
class RepeatPlan(Record):
    """How many answers a case is judged by, and how many of them have to pass."""

    answers: int
    min_pass_rate: float
    min_pass_rate_source: str
    """Where the rate was set: `command line`, `case`, `file`, `ini` or `default`."""
    stops_early: bool
    """Whether to stop asking once no answer could change the verdict."""

    @classmethod
    def of(cls, job: CaseJob, answers: int) -> "RepeatPlan":
        """Return the plan of a case that is asked for some answers."""
        options, case = job.options, job.case
        limits = options.min_pass_rate, case.min_pass_rate, case.min_pass_rate_source, options.ini_min_pass_rate
        return cls(answers, *chosen_limit(*limits, 1.0), stops_early(options))

    @property
    def needed(self) -> int:
        """How many answers have to pass."""
        return needed_passes(self.answers, self.min_pass_rate)

    def verdict(self, results: Sequence[EvalResult]) -> Verdict | None:
        """Return the verdict that no further answer can change; None while it is open."""
        counts = Counter(result.status for result in results)
        return verdict(counts["pass"], counts["fail"], self.answers, self.min_pass_rate)

    def wanted(self, results: Sequence[EvalResult]) -> int:
        """Return how many more answers to ask now: with an early stop, as many as the verdict needs in any case.

        So no answer turns out to be needless, and the number of answers does not depend on other cases in flight.
        0: the verdict is certain, or it is certain that there will be none.
        """
        left = self.answers - len(results)
        if not self.stops_early or self.needed == 0:
            return left
        if self.verdict(results) is not None:
            return 0
        counts = Counter(result.status for result in results)
        ways = (self.needed - counts["pass"], self.answers - self.needed + 1 - counts["fail"])
        return min((way for way in ways if way <= left), default=0)

    def stopped(self, results: Sequence[EvalResult]) -> Verdict | None:
        """Return the verdict if the last answer made it certain, as happens when answers are asked one by one."""
        if not self.stops_early or self.needed == 0 or self.verdict(results[:-1]) is not None:
            return None
        return self.verdict(results)


def stops_early(options: RunOptions) -> bool:
    """Whether to stop asking for answers once the verdict is certain.

    With a baseline all are asked, since the case's rate is compared and not only its verdict.
    """
    has_baseline = options.baseline is not None or options.update_baseline is not None
    return options.stop == "certain" if options.stop is not None else not has_baseline


# The result of a case, made of those of its answers.


def combine_answers(
    results: Sequence[EvalResult], plan: RepeatPlan, *, together: bool, with_answers: bool = False
) -> EvalResult:
    """Return the result of a case from the results of its answers, in their order. There must be at least one.

    `together`: all were asked at once, without waiting for the verdict on others. `with_answers`: it holds them all.
    """
    broken = next((result for result in results if is_set_up_error(result)), None)
    if broken is not None:
        return broken  # the target cannot be asked; the result says why
    judged = [result for result in results if result.status != "error"]
    decided = plan.verdict(results) if judged else None
    figures = repeat_figures(results, plan, None if together else plan.stopped(results))
    status = decided or "error"
    # It shows the first failing answer, else the first; of an error, the first error.
    shown = [result for result in results if result.status == "error"] if decided is None else judged
    base = next((result for result in shown if result.status == "fail"), shown[0])
    of_answers = {name for name, field in RESULT_FIELDS.items() if field.of == "answer"}
    own = ({key: value for key, value in each.to_plain().items() if key in of_answers} for each in results)
    combined = base.replace(
        status=status,
        score=math.fsum(result.score for result in judged) / len(judged) if judged else 0.0,
        assertion=base.assertion if status == "fail" else None,
        repeat=figures,
        answers=tuple(own) if with_answers else None,
        timestamp=max(result.timestamp for result in results),
        attempts=sum(result.attempts for result in results),
        request_attempts=_sum(result.request_attempts for result in results),
        waited_ms=_sum(result.waited_ms for result in results),
        judge_retries=_sum(result.judge_retries for result in results),
        duration_ms=_sum(result.duration_ms for result in results),
        execution_metrics=added_metrics(results),
        spent=None,
        cached=all(result.cached for result in results) or None,
    )
    if status != "error":
        return combined
    message = _open_text(results, figures)
    return combined.replace(error=message, misses=(f"Error: {message}",))


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _open_text(results: Sequence[EvalResult], figures: RepeatFigures) -> str:
    """Return why there is no verdict, such as `3 answers pass, 4 of 5 are needed, 2 could not be had (HTTP 503)`."""
    passes = counted(figures.passes, "answer passes", "answers pass")
    needed = f"{figures.needed} of {figures.planned} {'is' if figures.needed == 1 else 'are'} needed"
    skipped = figures.planned - figures.asked
    left = f", {skipped} more would not decide it" if skipped else ""
    first, *others = dict.fromkeys(result.error.strip().partition("\n")[0] for result in results if result.error)
    why = f"{first}, and {len(others)} more" if others else first
    return f"cannot be judged: {passes}, {needed}, {figures.errors} could not be had ({why}){left}"


def confirmed_by(result: EvalResult, fresh: Sequence[EvalResult], plan: RepeatPlan) -> EvalResult:
    """Add fresh answers of a case to its result. They change its metrics, but not its verdict."""
    figures = result.repeat or repeat_figures([result], plan.replace(answers=1), None)
    both = [result, *fresh]
    return result.replace(
        repeat=figures.replace(confirm=repeat_figures(fresh, plan, None)),
        attempts=sum(each.attempts for each in both),
        execution_metrics=added_metrics(both),
        cached=all(each.cached for each in both) or None,
    )


def repeat_figures(results: Sequence[EvalResult], plan: RepeatPlan, stopped: Verdict | None) -> RepeatFigures:
    """Return the counts and scores of the answers of a case."""
    judged = [result for result in results if result.status != "error"]
    passes = sum(result.status == "pass" for result in judged)
    tools = tuple(result.trace_summary.tool_names if result.trace_summary else () for result in judged)
    rate = pass_rate(passes, len(judged), stopped) if judged else None
    interval = None if rate is None else wilson(rate, len(judged))
    return RepeatFigures(
        planned=plan.answers,
        asked=len(results),
        judged=len(judged),
        errors=len(results) - len(judged),
        scores=tuple(result.score for result in judged),
        same_text=len({result.candidate_answer for result in judged}) == 1 if len(judged) > 1 else None,
        tools=tools if any(tools) else None,
        cached=sum(bool(result.cached) for result in results) or None,
        passes=passes,
        needed=plan.needed,
        min_pass_rate=plan.min_pass_rate,
        min_pass_rate_source=plan.min_pass_rate_source,
        stopped=None if stopped is None else "certain pass" if stopped == "pass" else "certain fail",
        pass_rate=rate,
        pass_rate_low=None if interval is None else interval.low,
        pass_rate_high=None if interval is None else interval.high,
        flaky=is_flaky(passes, len(judged)),
    )


def added_metrics(results: Iterable[EvalResult]) -> ExecutionMetrics | None:
    """Add up tokens, US dollars and milliseconds of answers. A sum is known only if each of its parts is."""
    answered = [result for result in results if result.status != "error" or result.execution_metrics is not None]
    found = [result.execution_metrics or ExecutionMetrics() for result in answered]
    if not any(metrics != ExecutionMetrics() for metrics in found):
        return None
    durations: dict[str, tuple[float, ...]] = {}
    for metrics in found:
        for tool, times in (metrics.tool_durations or {}).items():
            durations[tool] = (*durations.get(tool, ()), *times)
    usages = [metrics.token_usage for metrics in found]
    costs = [metrics.cost_usd for metrics in found]
    return ExecutionMetrics(
        token_usage=None if None in usages else added_usage(usages),
        cost_usd=None if None in costs else _sum(costs),
        duration_ms=_sum(metrics.duration_ms for metrics in found),
        tool_durations=durations or None,
    )


def is_set_up_error(result: EvalResult) -> bool:
    """Whether the set-up of a case failed, so that asking again would fail too."""
    return result.error_detail is not None and result.error_detail.stage == "setup"
