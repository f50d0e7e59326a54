"""Scores, verdicts and the results of evaluators."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeGuard

from pytest_agentv.errors import ErrorKind, ErrorStage
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.records import record
from pytest_agentv.models.traces import JudgeMetrics

Verdict = Literal["pass", "borderline", "fail"]
"""The word for a score: `pass` from 0.8, `borderline` from 0.6, else `fail`."""

NOTHING_COUNTS: Final = "all weights are 0, so that nothing counts"
"""The reason for a score of 0 if every judgement may be good."""

PASS_SCORE: Final = 0.8
BORDERLINE_SCORE: Final = 0.6


def verdict_of(score: float) -> Verdict:
    """Return AgentV's word for a score: `pass` from 0.8, `borderline` from 0.6, else `fail`."""
    if score >= PASS_SCORE:
        return "pass"
    return "borderline" if score >= BORDERLINE_SCORE else "fail"


def clamp_score(value: object) -> float:
    """Clamp a number to 0..1. Anything but a finite number counts as 0."""
    if not is_score(value):
        return 0.0
    return float(min(1.0, max(0.0, value)))  # clamped first, because an int can be too large for a float


def is_score(value: object) -> TypeGuard[float]:
    """Whether a value can be a score; NaN, infinities and true cannot."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def weighted_mean(scores: Sequence[tuple[float, float]]) -> float:
    """Return the mean of scores from 0 to 1, each with its weight; 0 if all weights are 0.

    The weights are scaled by a power of two, which is exact, so that those around 1e308 have a sum.
    """
    if len(scores) == 1:  # as of most cases
        score, weight = scores[0]
        return clamp_score(score) if weight else 0.0
    largest = max((abs(weight) for _, weight in scores), default=0.0)
    exponent = math.frexp(largest)[1]
    scaled = [(score, math.ldexp(weight, -exponent)) for score, weight in scores]
    total = math.fsum(weight for _, weight in scaled)
    return clamp_score(math.fsum(score * weight for score, weight in scaled) / total) if total else 0.0


@record
class ErrorDetail(Record):
    """Where and why a case or an evaluator broke."""

    stage: ErrorStage
    """Where it broke."""
    kind: ErrorKind
    """Why it broke."""


@record
class EvaluatorResult(Record):
    """The judgement of one evaluator, as the results file has it."""

    name: str
    """The name of the evaluator."""
    type: str
    """The kind of the evaluator."""
    score: float
    """The score, 0 to 1."""
    weight: float | None = None
    """The weight, 0 or more; None: a model combines the members, which have no weights."""
    verdict: Verdict = "fail"
    """The word for the score."""
    hits: tuple[str, ...] = ()
    """What the answer has right."""
    misses: tuple[str, ...] = ()
    """What the answer has wrong."""
    reasoning: str | None = None
    """Why it gave this score."""
    evaluator_provider_request: JsonObject | None = None
    """What a judge was sent."""
    evaluator_results: "tuple[EvaluatorResult, ...] | None" = None
    """The results of its members, of a composite."""
    details: JsonObject | None = None
    """Structured findings, as the evaluator gave them."""
    raw_output: str | None = None
    """The judge's output or reply if it was unreadable."""
    error: str | None = None
    """Why the evaluator could not judge. The case's status is then `error`."""
    error_kind: ErrorKind | None = None
    """The kind of that error."""
    judge_retries: int | None = None
    """How often the judge was asked again because a reply held no judgement; None: never."""
    unmet_required: tuple[str, ...] | None = None
    """Required checks and rubrics that the answer does not satisfy or that were not judged. They fail the case."""
    warnings: tuple[str, ...] | None = None
    """Warnings about the judgement."""
    required: bool | None = None
    """True: the case fails without it, whatever the mean and the weight."""
    judge_model: str | None = None
    """The model that judged; of a judge that names none, its target. None: no model took part."""
    duration_ms: float | None = None
    """Milliseconds that the judgement took."""
    judge_metrics: JudgeMetrics | None = None
    """Usage of the models that it asked, without those of its members; None: it asked none."""
    unknown: str | None = None
    """The unknown value that the score depends on, as an amount that the target does not report; None: nothing."""
    unchecked: str | None = None
    """Why the check could not be made on this answer: it lacks the part that is judged; None: it was made."""


def unmet_required(results: Sequence[EvaluatorResult]) -> tuple[str, ...]:
    """Return the unmet required checks and rubrics. Of a result with weight 0 only those count that say `required`.

    Rubrics are required unless they say otherwise, and a weight of 0 silences these.
    """
    unmet: list[str] = []
    for result in results:
        unmet += result.unmet_required or () if result.weight != 0 else explicitly_unmet([result])
    return tuple(unmet)


def explicitly_unmet(results: Sequence[EvaluatorResult]) -> tuple[str, ...]:
    """Return what evaluators that say `required` left unmet, members at every depth included."""
    unmet: list[str] = []
    for result in results:
        known = result.unmet_required or ()
        members = explicitly_unmet(result.evaluator_results or ())
        # a negated composite ignores the requirements of its members
        unmet += known if result.required else (each for each in members if each in known)
    return tuple(unmet)


def judge_metrics_of(results: Iterable[EvaluatorResult]) -> Iterator[JudgeMetrics]:
    """Yield what the models took that evaluators asked, including members of composites."""
    for result in results:
        if result.judge_metrics is not None:
            yield result.judge_metrics
        if result.evaluator_results:
            yield from judge_metrics_of(result.evaluator_results)


@record
class Score(Record):
    """The judgement of an evaluator. An evaluator that cannot judge raises `EvaluatorError` instead."""

    value: float
    """The score, 0 to 1. Another finite number counts as the nearer of the two, with a warning."""
    hits: tuple[str, ...] = ()
    """What the answer has right, in short texts."""
    misses: tuple[str, ...] = ()
    """What the answer has wrong, in short texts."""
    reasoning: str | None = None
    """Why it is this score."""
    verdict: Verdict | None = None
    """The evaluator's own verdict; None: that of the value."""
    details: JsonObject | None = None
    """Structured findings: plain JSON, at most 100 levels deep. The results file has them as they are."""
    request: JsonObject | None = None
    """The request to a judge (script or model), for the record."""
    raw_output: str | None = None
    """The output or reply of a judge if it was unreadable."""
    results: tuple[EvaluatorResult, ...] | None = None
    """The members' results if the evaluator is a composite. If one has an `error`, the composite could not judge."""
    error: str | None = None
    """Why the judge's reply is not a judgement; the status of the case is then `error`."""
    error_kind: ErrorKind = "crash"
    """The kind of that error."""
    judge_retries: int | None = None
    """How often the judge was asked again."""
    unmet_required: tuple[str, ...] | None = None
    """Required rubrics that the answer does not satisfy or that were not judged. They fail the case at any score."""
    unknown: str | None = None
    """The unknown value that the score depends on. Negating such a score is an error; None: there is none."""
    warnings: tuple[str, ...] = ()
    """What is odd about the check itself. The run warns about it."""
    unchecked: str | None = None
    """Why the check could not be made on this answer. Negating such a score gives 0; None: it was made."""
