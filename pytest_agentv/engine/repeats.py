"""Cases with several answers: plans them, combines their results, and splits a result into its answers."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.results import Threshold
from pytest_agentv.model.base import JsonObject, Record
from pytest_agentv.model.messages import (
    ExecutionMetrics,
    JudgeMetrics,
    TokenUsage,
    TraceSummary,
    added_judge_metrics,
    added_usage,
)
from pytest_agentv.model.results import EvalResult, RepeatFigures
from pytest_agentv.model.run_options import RunOptions
from pytest_agentv.model.text import counted
from pytest_agentv.stats.intervals import Verdict, is_flaky, needed_passes, pass_rate, passing, verdict, wilson

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
        rates = (
            (options.min_pass_rate, "command line"),
            (case.min_pass_rate, case.min_pass_rate_source or "case"),
            (options.ini_min_pass_rate, "ini"),
        )
        rate, source = next(((rate, source) for rate, source in rates if rate is not None), (1.0, "default"))
        return cls(answers, rate, source, stops_early(options))

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

_CASE_FIELDS: Final = frozenset(
    {
        *("eval_id", "dataset", "conversation_id", "target", "schema_version", "threshold", "threshold_source"),
        *("node_id", "run_id", "eval_file", "line", "case_hash", "target_hash", "grading_hash", "required", "group"),
        *("xfail", "xfail_strict", "tags", "judge", "expected_outcome", "reference_answer"),
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
    own = ({key: value for key, value in each.to_plain().items() if key not in _CASE_FIELDS} for each in results)
    paid = [*results, *lost]
    combined = base.replace(
        status=status,
        score=math.fsum(result.score for result in judged) / len(judged) if judged else 0.0,
        assertion=base.assertion if status == "fail" else None,
        repeat=figures,
        answers=tuple(own) if with_answers else None,
        timestamp=max(result.timestamp for result in results),
        attempts=sum(result.attempts for result in paid),
        request_attempts=_sum(result.request_attempts for result in paid),
        waited_ms=_sum(result.waited_ms for result in paid),
        judge_retries=_sum(result.judge_retries for result in paid),
        duration_ms=_sum(result.duration_ms for result in paid),
        execution_metrics=added_metrics(_counted(paid)),
        judge_metrics=added_judge_metrics(result.judge_metrics for result in paid),
        cached=all(result.cached for result in paid) or None,
    )
    if status != "error":
        return combined
    message = _open_text(results, figures)
    return combined.replace(error=message, misses=(f"Error: {message}",))


def _shown(results: Sequence[EvalResult], decided: Verdict | None) -> EvalResult:
    """Return the answer that the result shows: the first failing one, else the first; of an error, the first error."""
    if decided is None:
        return next(result for result in results if result.status == "error")
    judged = [result for result in results if result.status != "error"]
    return next((result for result in judged if result.status == "fail"), judged[0])


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _counted(results: Sequence[EvalResult]) -> Sequence[EvalResult]:
    """Return the answers whose metrics count: cached ones only if no other answer was paid for."""
    return [result for result in results if not result.cached] or results


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


def _count_if_mixed(known: Iterable[bool]) -> int | None:
    """Return how many are known; None if all or none are."""
    flags = list(known)
    return sum(flags) if any(flags) and not all(flags) else None


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


def is_set_up_error(result: EvalResult) -> bool:
    """Whether the set-up of a case failed, so that asking again would fail too."""
    return result.error_detail is not None and result.error_detail.stage == "setup"


def case_fields(result: EvalResult) -> JsonObject:
    """Return the keys of a result that are the same for all answers of its case."""
    return {key: value for key, value in result.to_plain().items() if key in _CASE_FIELDS}


# Metrics of single answers that add up to those of their case, which may include answers that are gone.

N = TypeVar("N", int, float)
T = TypeVar("T")

_NUMBERS: Final = ("attempts", "request_attempts", "waited_ms", "judge_retries", "duration_ms")
_DIGITS: Final = 9
"""Smaller differences are those of rounding."""


def adding_up(result: EvalResult, answers: Sequence[EvalResult], paid: int) -> tuple[EvalResult, ...]:
    """Return answers whose metrics add up to those of their case: one of them gets what is missing.

    Args:
        result: The result of the case.
        answers: Its judged answers, each with its own metrics.
        paid: How many of them count as paid for. If all are cached, these are the first ones.
    """
    if not answers:
        return ()
    if not result.cached and all(each.cached for each in answers):
        total = result.execution_metrics
        answers = [_as_paid(each, total) if number < paid else each for number, each in enumerate(answers)]
    place = next((number for number, each in enumerate(answers) if not each.cached), 0)
    chosen = answers[place].replace(**_metrics(result, answers, place))
    return tuple(chosen if number == place else each for number, each in enumerate(answers))


def _as_paid(answer: EvalResult, total: ExecutionMetrics | None) -> EvalResult:
    """Return a cached answer as one that was paid for, without what is not known of those that were."""
    own = answer.execution_metrics
    if total is None or own is None:
        return answer.replace(cached=None, execution_metrics=None)
    cost = None if total.cost_usd is None else own.cost_usd
    usage = None if total.token_usage is None else own.token_usage
    return answer.replace(cached=None, execution_metrics=own.replace(cost_usd=cost, token_usage=usage))


def _metrics(result: EvalResult, answers: Sequence[EvalResult], place: int) -> JsonObject:
    """Return the metrics of the answer at a place, with what the others lack of those of the case."""
    own = answers[place]
    others = [each for number, each in enumerate(answers) if number != place]
    counted = [each for each in others if result.cached or not each.cached]
    numbers = {
        name: _rest(getattr(own, name), getattr(result, name), [getattr(each, name) for each in others])
        for name in _NUMBERS
    }
    return {
        **numbers,
        "execution_metrics": _execution(
            own.execution_metrics, result.execution_metrics, _known(each.execution_metrics for each in counted)
        ),
        "judge_metrics": _judges(
            own.judge_metrics, result.judge_metrics, _known(each.judge_metrics for each in others)
        ),
    }


def _rest(own: N | None, total: N | None, others: Iterable[N | None]) -> N | None:
    """Return what a sum has beyond the other values; the own value, if they add up or the sum is not known."""
    if total is None:
        return own
    rest = round(total - sum(_known(others)), _DIGITS)
    return own if rest == round(own or 0, _DIGITS) else max(rest, 0)


def _known(parts: Iterable[T | None]) -> list[T]:
    return [part for part in parts if part is not None]


def _execution(
    own: ExecutionMetrics | None, total: ExecutionMetrics | None, others: Sequence[ExecutionMetrics]
) -> ExecutionMetrics | None:
    if total is None:
        return own
    known = own or ExecutionMetrics()
    metrics = known.replace(
        token_usage=_usage(known.token_usage, total.token_usage, [each.token_usage for each in others]),
        cost_usd=_rest(known.cost_usd, total.cost_usd, [each.cost_usd for each in others]),
        duration_ms=_rest(known.duration_ms, total.duration_ms, [each.duration_ms for each in others]),
        tool_durations=_times(total.tool_durations or {}, [each.tool_durations or {} for each in others]) or None,
    )
    return own if metrics == known else metrics


def _usage(own: TokenUsage | None, total: TokenUsage | None, others: Iterable[TokenUsage | None]) -> TokenUsage | None:
    if total is None:
        return own
    known, parts = own or TokenUsage(0, 0), _known(others)
    usage = TokenUsage(
        _rest(known.input, total.input, [each.input for each in parts]) or 0,
        _rest(known.output, total.output, [each.output for each in parts]) or 0,
        _rest(known.cached, total.cached, [each.cached for each in parts]),
        _rest(known.reasoning, total.reasoning, [each.reasoning for each in parts]),
    )
    return own if usage == known else usage


def _times(
    total: Mapping[str, Sequence[float]], others: Sequence[Mapping[str, Sequence[float]]]
) -> dict[str, tuple[float, ...]]:
    """Return the times of tool calls that the others do not have."""
    rests = {
        tool: Counter(times) - Counter(t for each in others for t in each.get(tool, ()))
        for tool, times in total.items()
    }
    return {tool: tuple(rest.elements()) for tool, rest in rests.items() if rest}


def _judges(
    own: JudgeMetrics | None, total: JudgeMetrics | None, others: Sequence[JudgeMetrics]
) -> JudgeMetrics | None:
    if total is None:
        return own
    known = own or JudgeMetrics(0)
    calls = total.calls - sum(each.calls for each in others)
    metered = total.known_tokens - sum(each.known_tokens for each in others)
    priced = total.known_costs - sum(each.known_costs for each in others)
    metrics = JudgeMetrics(
        calls,
        cached=_rest(known.cached, total.cached, [each.cached for each in others]),
        token_usage=_usage(known.token_usage, total.token_usage, [each.token_usage for each in others]),
        cost_usd=_rest(known.cost_usd, total.cost_usd, [each.cost_usd for each in others]),
        metered=metered if 0 < metered < calls else None,
        priced=priced if 0 < priced < calls else None,
    )
    return own if metrics == known else metrics


# The single answers in the result of a case, so that none of them is asked again.

_NO_METRICS: Final[JsonObject] = {
    **dict.fromkeys(
        ("execution_metrics", "request_attempts", "waited_ms", "judge_retries", "judge_metrics", "duration_ms")
    ),
    "attempts": 0,
}
"""For all answers but the first, which has the metrics of all."""
_NO_TEXTS: Final[JsonObject] = {
    **dict.fromkeys(("reasoning", "agent_provider_request", "lm_provider_request", "evaluator_provider_request")),
    **dict.fromkeys(("evaluator_results", "assertion", "unmet_required", "last_error", "log_file", "finish_reason")),
    **dict.fromkeys(("retrieved_context", "trace", "output_messages")),
    "hits": (),
    "misses": (),
}
"""For all answers but the one that the result shows."""


def numbered_answers(result: EvalResult, threshold: Threshold, *, in_full: bool) -> dict[int, EvalResult]:
    """Return `answers_of` by their numbers, 0-based. Those that could not be had or judged are not among them."""
    missing = (result.repeat.error_numbers if result.repeat is not None else None) or ()
    answers = answers_of(result, threshold, in_full=in_full)
    numbers = (number for number in range(len(answers) + len(missing)) if number not in missing)
    return dict(zip(numbers, answers, strict=False))


def told_before(answers: Mapping[int, EvalResult]) -> dict[int, EvalResult]:
    """Return answers of an earlier result with zeros for the metrics that this result or a later one already counts."""
    return {
        number: answer.replace(**{**_NO_METRICS, "execution_metrics": _zeros(answer.execution_metrics)})
        for number, answer in answers.items()
    }


def _zeros(metrics: ExecutionMetrics | None) -> ExecutionMetrics | None:
    if metrics is None:
        return None
    usage = None if metrics.token_usage is None else TokenUsage(0, 0)
    return ExecutionMetrics(usage, None if metrics.cost_usd is None else 0.0)


def first_answer(result: EvalResult, threshold: Threshold) -> EvalResult | None:
    """Return the first answer as the only one of its case, with the metrics of all; None if its verdict is unknown.

    It says the result anew, so it has the time of the result.
    """
    first = numbered_answers(result, threshold, in_full=False).get(0)
    names = ("timestamp", "cached", *_NO_METRICS)
    return None if first is None else first.replace(**{name: getattr(result, name) for name in names})


def answers_of(result: EvalResult, threshold: Threshold, *, in_full: bool) -> tuple[EvalResult, ...]:
    """Return the judged answers of a case in their order; empty if the result does not tell which of them passed.

    Unless the result holds its answers, only the one that it shows has a text, and one has the metrics of all. Else one
    has those of answers that are gone, beside its own.

    Args:
        result: The result of the case.
        threshold: The current one. It may show another answer, whose text the result lacks: then empty.
        in_full: Whether the texts of all answers are wanted.
    """
    figures = result.repeat
    if figures is None:
        return (result,)
    if figures.reruns or len(figures.error_numbers or ()) != figures.errors:
        return ()  # a rerun case was asked until it passed; results of older versions do not number their errors
    if result.answers is not None:
        every = (EvalResult.from_plain({**case_fields(result), **own}) for own in result.answers)
        judged = [answer for answer in every if answer.status != "error"]
        return adding_up(result, judged, _paid_answers(result, figures))
    before, now = result.threshold, threshold.value
    if in_full or before is None or figures.passes != passing(figures.scores, before):
        return ()
    if before != now and (figures.beyond_scores or _shown_number(figures, before) != _shown_number(figures, now)):
        return ()
    return tuple(_answers(result, figures, now))


def _paid_answers(result: EvalResult, figures: RepeatFigures) -> int:
    """Return how many of the judged answers count as paid for. The first of them has the metrics of all.

    All may be cached, although the result is not: then it has the metrics of answers that are gone. These were judged
    later, or could not be, or confirmed the verdict.
    """
    fresh = len(figures.scores) - (figures.cached or 0)
    if fresh > 0 or result.cached:
        return max(0, fresh)
    return min(len(figures.scores), max(1, figures.lost or 0))


def _shown_number(figures: RepeatFigures, threshold: float) -> int:
    """Return the number of the answer that a result shows with a threshold: the first failing one, else the first."""
    return next((number for number, score in enumerate(figures.scores) if not passing([score], threshold)), 0)


def _answers(result: EvalResult, figures: RepeatFigures, threshold: float) -> Iterator[EvalResult]:
    shown = _shown_number(figures, threshold)
    fresh = _paid_answers(result, figures)
    counted = fresh or len(figures.scores)  # cached answers count if no other answer was paid for
    alone = result.replace(repeat=None, baseline=None)
    for number, score in enumerate(figures.scores):
        answer = alone
        if number != shown:
            tools = None if figures.tools is None else figures.tools[number]
            answer = alone.replace(
                **_NO_TEXTS,
                candidate_answer=result.candidate_answer if figures.same_text else "",
                trace_summary=None if tools is None else TraceSummary(len(tools), tools, dict.fromkeys(tools, 1), 0),
            )
        yield answer.replace(
            score=score,
            status="pass" if passing([score], threshold) else "fail",
            cached=True if number >= fresh else None,
            **({} if number == 0 else {**_NO_METRICS, "execution_metrics": _zero_metrics(result, number, counted)}),
        )


def _zero_metrics(result: EvalResult, number: int, counted: int) -> ExecutionMetrics | None:
    """Return zeros for the metrics that the first answer already counts. Without them, they would look unknown."""
    metrics, figures = result.execution_metrics, result.repeat
    if metrics is None or figures is None or number >= counted:
        return None
    is_priced = metrics.cost_usd is not None and number < (counted if figures.priced is None else figures.priced)
    is_metered = metrics.token_usage is not None and number < (counted if figures.metered is None else figures.metered)
    if not is_priced and not is_metered:
        return None
    return ExecutionMetrics(TokenUsage(0, 0) if is_metered else None, 0.0 if is_priced else None)
