"""Splits the result of a case into its single answers, so that none of them is asked again."""

from collections.abc import Iterator, Mapping
from typing import Final

from pytest_agentv.engine.repeating.combining import case_fields
from pytest_agentv.engine.repeating.sums import adding_up
from pytest_agentv.engine.scoring import Threshold
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.results import EvalResult, RepeatFigures
from pytest_agentv.models.traces import ExecutionMetrics, TokenUsage, TraceSummary
from pytest_agentv.statistics.repeats import passing

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
    if before != now and (figures.beyond_scores or _shown(figures, before) != _shown(figures, now)):
        return ()
    return tuple(_answers(result, figures, now))


def _answers(result: EvalResult, figures: RepeatFigures, threshold: float) -> Iterator[EvalResult]:
    shown = _shown(figures, threshold)
    fresh = _paid_answers(result, figures)
    counted = fresh or len(figures.scores)  # cached answers count if no other answer was paid for
    for number, score in enumerate(figures.scores):
        yield _one(result, figures, number, is_shown=number == shown).replace(
            score=score,
            status="pass" if passing([score], threshold) else "fail",
            cached=True if number >= fresh else None,
            **({} if number == 0 else {**_NO_METRICS, "execution_metrics": _zero_metrics(result, number, counted)}),
        )


def _paid_answers(result: EvalResult, figures: RepeatFigures) -> int:
    """Return how many of the judged answers count as paid for. The first of them has the metrics of all.

    All may be cached, although the result is not: then it has the metrics of answers that are gone. These were judged
    later, or could not be, or confirmed the verdict.
    """
    fresh = len(figures.scores) - (figures.cached or 0)
    if fresh > 0 or result.cached:
        return max(0, fresh)
    return min(len(figures.scores), max(1, figures.lost or 0))


def _shown(figures: RepeatFigures, threshold: float) -> int:
    """Return the number of the answer that a result shows with a threshold: the first failing one, else the first."""
    return next((number for number, score in enumerate(figures.scores) if not passing([score], threshold)), 0)


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


def _zeros(metrics: ExecutionMetrics | None) -> ExecutionMetrics | None:
    if metrics is None:
        return None
    usage = None if metrics.token_usage is None else TokenUsage(0, 0)
    return ExecutionMetrics(usage, None if metrics.cost_usd is None else 0.0)


def _one(result: EvalResult, figures: RepeatFigures, number: int, *, is_shown: bool) -> EvalResult:
    alone = result.replace(repeat=None, baseline=None)
    if is_shown:
        return alone
    return alone.replace(
        **_NO_TEXTS,
        candidate_answer=result.candidate_answer if figures.same_text else "",
        trace_summary=None if figures.tools is None else _calls(figures.tools[number]),
    )


def _calls(tools: tuple[str, ...]) -> TraceSummary:
    return TraceSummary(len(tools), tools, dict.fromkeys(tools, 1), 0)
