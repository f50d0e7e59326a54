"""Builds the results of cases, judged ones and broken ones, and combines scores."""

import dataclasses
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.engine.answers import Answered
from pytest_agentv.engine.jobs import CaseIdentity, CaseJob
from pytest_agentv.errors import ErrorKind, ErrorStage, KindError, ProviderError
from pytest_agentv.model.base import JsonObject, Record
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import Costs
from pytest_agentv.model.options import DEFAULT_THRESHOLD, RunOptions
from pytest_agentv.model.results import (
    NOTHING_COUNTS,
    ErrorDetail,
    EvalResult,
    EvaluatorResult,
    Spent,
    Status,
    judge_metrics_of,
    unmet_required,
    weighted_mean,
)

# The score of a case, and whether it passes.

ROUNDING_SLACK: Final = 1e-9
"""Tolerance for means of floats: the mean of three times 0.8 may be 0.7999999999999999, which must reach 0.8."""


@dataclass(frozen=True, slots=True)
class Threshold(Record):
    """The lowest score that passes."""

    value: float
    source: str
    """Where it was set: `command line`, `case`, `file`, `ini` or `default`."""


@dataclass(frozen=True, slots=True)
class Judgement(Record):
    """What the evaluators of a case together say of its answer."""

    score: float
    """0 to 1."""
    hits: tuple[str, ...]
    misses: tuple[str, ...]
    reasoning: str | None
    broken: EvaluatorResult | None
    """The first evaluator that could not judge. It makes the case an error: a 0 would look like a bad answer."""
    unmet_required: tuple[str, ...]
    status: Status

    @classmethod
    def of(cls, results: Sequence[EvaluatorResult], threshold: float, *, is_default_judge: bool = False) -> "Judgement":
        """Combine the results of a case's evaluators. The score is the weighted mean, or 0 if all weights are 0.

        A result without a weight weighs 1. The one judge of a case that names no evaluators stands for all.
        Source: agentv-formats 6.10; decisions 7 and 35.
        """
        scores: list[tuple[float, float]] = []
        hits: list[str] = []
        misses: list[str] = []
        reasons: list[str] = []
        broken: EvaluatorResult | None = None
        for result in results:
            scores.append((result.score, 1.0 if result.weight is None else result.weight))
            hits += result.hits
            misses += result.misses
            reasons += [f"{result.name}: {result.reasoning}"] if result.reasoning else []
            broken = result if broken is None and result.error is not None else broken
        score, reasoning, unmet = weighted_mean(scores), " | ".join(reasons) or None, unmet_required(results)
        if is_default_judge:
            score, reasoning = results[0].score, results[0].reasoning
        elif scores and not any(weight for _, weight in scores):
            reasoning = " | ".join([NOTHING_COUNTS, *reasons])
        status: Status = "error" if broken is not None else decide_status(score, threshold, unmet)
        return cls(score, tuple(hits), tuple(misses), reasoning, broken, unmet, status)


def decide_status(score: float, threshold: float, unmet: Sequence[str] | None = None) -> Literal["pass", "fail"]:
    """Return `pass` if the score reaches the threshold and all required rubrics are met.

    This is the only place that decides whether a score passes.
    """
    return "pass" if score + ROUNDING_SLACK >= threshold and not unmet else "fail"


def chosen_limit(
    of_run: float | None, of_case: float | None, case_source: str | None, of_ini: float | None, default: float
) -> tuple[float, str]:
    """Return a limit and where it was set: that of the command line, else case, file, ini file or default."""
    levels = ((of_run, "command line"), (of_case, case_source or "case"), (of_ini, "ini"))
    for value, source in levels:
        if value is not None:
            return value, source
    return default, "default"


def effective_threshold(options: RunOptions, case: EvalCase) -> Threshold:
    """Return the threshold of a case."""
    limits = options.threshold, case.threshold, case.threshold_source, options.ini_threshold
    return Threshold(*chosen_limit(*limits, DEFAULT_THRESHOLD))


# The results of cases: judged ones and broken ones (agentv-formats 8.1 and 8.2).


@dataclass(frozen=True, slots=True)
class Asked(Record):
    """The request to the target, for the record."""

    prompt: Prompt
    is_agent: bool
    """The target is an agent, whose results record the request as `agent_provider_request`."""
    guideline_paths: tuple[str, ...] = ()


def effective_target_name(name: str, *, dry_run: bool) -> str:
    """Return the target's name in results. A mock that replaces a target has its own name."""
    return f"{name}-dry-run" if dry_run else name


def judged_result(
    job: CaseJob, asked: Asked, answered: Answered, evaluations: tuple[EvaluatorResult, ...], threshold: Threshold
) -> EvalResult:
    """Return the result of a case whose evaluators ran."""
    is_default_judge = job.case.evaluators is None
    judgement = Judgement.of(evaluations, threshold.value, is_default_judge=is_default_judge)
    broken, judges = judgement.broken, Costs.added(judge_metrics_of(evaluations))
    return EvalResult(
        **_identity_fields(job.identity),
        **request_field(asked),
        **_answer_fields(answered),
        score=judgement.score,
        hits=judgement.hits,
        misses=judgement.misses,
        reasoning=judgement.reasoning,
        evaluator_provider_request=evaluations[0].evaluator_provider_request if is_default_judge else None,
        evaluator_results=None if is_default_judge and not broken else evaluations,
        error=broken.error if broken else None,
        error_detail=ErrorDetail("evaluator", broken.error_kind or "crash") if broken else None,
        status="pass" if job.options.dry_run and not broken else judgement.status,
        threshold=threshold.value,
        threshold_source=threshold.source,
        unmet_required=judgement.unmet_required or None,
        judge_retries=_judge_retries(evaluations) or None,
        spent=Spent(judge=judges) if judges.calls else None,
        trace=answered.trace if job.options.include_trace else None,
    )


_NAMES: Final = tuple(field.name for field in dataclasses.fields(CaseIdentity))
"""The names of a case, which its result has as well."""
_names_of: Final = operator.attrgetter(*_NAMES)


def _identity_fields(identity: CaseIdentity) -> JsonObject:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"timestamp": now, **dict(zip(_NAMES, _names_of(identity), strict=True))}


def request_field(asked: Asked, error: str | None = None) -> JsonObject:
    prompt, paths = asked.prompt.in_words(), list(asked.guideline_paths)
    failed = {} if error is None else {"guideline_paths": paths, "error": error}
    if asked.is_agent:
        return {"agent_provider_request": {"question": prompt.question, "guideline_paths": paths} | failed}
    if prompt.chat_prompt is not None:
        return {"lm_provider_request": {"chat_prompt": [m.to_plain() for m in prompt.chat_prompt]} | failed}
    return {"lm_provider_request": {"question": prompt.question, "guidelines": prompt.guidelines} | failed}


def _answer_fields(answered: Answered) -> JsonObject:
    messages, response, paid = answered.output_messages or (), answered.response, answered.paid
    is_more = len(messages) > 1 or bool(messages and messages[0].tool_calls)
    return {
        "candidate_answer": answered.candidate_answer,
        "trace_summary": answered.trace_summary,
        "finish_reason": response.finish_reason,
        "model": answered.model,
        "retrieved_context": response.retrieved_context,
        "workspace": response.workspace,
        "file_changes": response.file_changes,
        "execution_metrics": paid,
        "output_messages": messages if is_more else None,  # the result holds the answer already
        "cost_source": None if paid is None or paid.cost_usd is None else response.cost_source or "target",
        "cached": response.cached or None,
        "attempts": answered.attempts.count,
        "conversation": None if response.conversation is None else response.conversation.figures,
        **answered.attempts.requests,
    }


def _judge_retries(evaluations: Sequence[EvaluatorResult]) -> int:
    """Sum up the judge retries of all evaluators, including members of composites."""
    retries = 0
    for each in evaluations:
        retries += (each.judge_retries or 0) + (_judge_retries(each.evaluator_results) if each.evaluator_results else 0)
    return retries


def error_result(
    identity: CaseIdentity, stage: ErrorStage, kind: ErrorKind, message: str, asked: Asked | None = None
) -> EvalResult:
    """Return the result of a case without an answer to judge."""
    request = {} if asked is None else request_field(asked, error=message)
    return EvalResult(
        **_identity_fields(identity),
        score=0.0,
        hits=(),
        misses=(f"Error: {message}",),
        candidate_answer=f"Error occurred: {message}",
        **request,
        error=message,
        error_detail=ErrorDetail(stage, kind),
        status="error",
    )


def unjudged_result(job: CaseJob, asked: Asked, answered: Answered, error: KindError) -> EvalResult:
    """Return the result of a case whose target replied, but whose answer was not judged. Keeps the paid response."""
    stage: ErrorStage = "provider" if isinstance(error, ProviderError) else "evaluator"
    broken = error_result(job.identity, stage, error.kind, str(error), asked)
    return broken.replace(**_answer_fields(answered))
