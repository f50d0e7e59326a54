"""Builds the results of cases: judged ones and broken ones (agentv-formats 8.1 and 8.2)."""

from collections.abc import Sequence
from datetime import UTC, datetime

from pytest_agentv.engine.scoring import CombinedScore, Threshold, combine_scores, decide_status
from pytest_agentv.errors import ErrorKind, ErrorStage, KindError, ProviderError
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.messages import Message
from pytest_agentv.models.records import record
from pytest_agentv.models.results import ErrorDetail, EvalResult, ShardFigures, Status
from pytest_agentv.models.scores import EvaluatorResult, unmet_required
from pytest_agentv.models.traces import ExecutionMetrics, TraceEvent, TraceSummary
from pytest_agentv.prompts.prompt import Prompt


@record
class CaseIdentity(Record):
    """The names of a case in the results file, known even if the case cannot be loaded."""

    eval_id: str
    dataset: str
    target: str
    eval_file: str
    line: int
    node_id: str
    run_id: str
    conversation_id: str | None = None
    case_hash: str | None = None
    target_hash: str | None = None
    grading_hash: str | None = None
    tags: tuple[str, ...] | None = None
    judge: str | None = None
    required: bool | None = None
    """True if the case must pass by itself, else None."""
    group: str | None = None
    row: str | None = None
    """The row of a table that the case was made from."""
    combination: str | None = None
    """The values of its matrix."""
    expected_outcome: str | None = None
    reference_answer: str | None = None
    shard: ShardFigures | None = None
    """The part of the run that it is in."""


@record
class Asked(Record):
    """The request to the target, for the record."""

    prompt: Prompt
    is_agent: bool
    """The target is an agent, whose results record the request as `agent_provider_request`."""
    guideline_paths: tuple[str, ...] = ()


@record
class Answered(Record):
    """The response of the target, for the record."""

    candidate_answer: str
    output_messages: tuple[Message, ...] | None = None
    trace: tuple[TraceEvent, ...] | None = None
    summary: TraceSummary | None = None
    metrics: ExecutionMetrics | None = None
    cached: bool = False
    error: str | None = None
    """Set if the target replied without an answer."""
    error_kind: ErrorKind = "crash"
    finish_reason: str | None = None
    retrieved_context: tuple[str, ...] | None = None
    cost_source: str | None = None
    """Who says what the answer cost; None: nobody does."""
    is_text_only: bool = False
    """Whether the target returned only a text, so that its tool calls are unknown."""


def effective_target_name(name: str, *, dry_run: bool) -> str:
    """Return the target's name in results. A mock that replaces a target has its own name."""
    return f"{name}-dry-run" if dry_run else name


def judged_result(
    identity: CaseIdentity,
    asked: Asked,
    answered: Answered,
    evaluations: Sequence[EvaluatorResult],
    threshold: Threshold,
    *,
    is_default_judge: bool,
    dry_run: bool,
    include_trace: bool,
) -> EvalResult:
    """Return the result of a case whose evaluators ran.

    An evaluator that could not judge makes the case an error, because a score of 0 would look like a bad answer
    (decisions 7 and 35).
    """
    combined = _combined(evaluations, is_default_judge=is_default_judge)
    broken = next((evaluation for evaluation in evaluations if evaluation.error), None)
    error = broken.error if broken else None
    unmet = unmet_required(evaluations) or None
    status: Status = "pass" if dry_run else decide_status(combined.value, threshold.value, unmet)
    if error is not None:
        status = "error"
    return EvalResult(
        **_identity_fields(identity),
        score=combined.value,
        hits=combined.hits,
        misses=combined.misses,
        candidate_answer=answered.candidate_answer,
        reasoning=combined.reasoning,
        **_request_field(asked),
        evaluator_provider_request=evaluations[0].evaluator_provider_request if is_default_judge else None,
        evaluator_results=None if is_default_judge and not error else tuple(evaluations),
        trace_summary=answered.summary,
        error=error,
        error_detail=ErrorDetail("evaluator", broken.error_kind or "crash") if broken else None,
        status=status,
        threshold=threshold.value,
        threshold_source=threshold.source,
        unmet_required=unmet,
        judge_retries=_judge_retries(evaluations) or None,
        finish_reason=answered.finish_reason,
        retrieved_context=answered.retrieved_context,
        execution_metrics=answered.metrics,
        trace=answered.trace if include_trace else None,
        output_messages=_conversation(answered),
        cost_source=answered.cost_source,
        dry_run=dry_run or None,
        cached=answered.cached or None,
    )


def error_result(
    identity: CaseIdentity,
    stage: ErrorStage,
    kind: ErrorKind,
    message: str,
    asked: Asked | None = None,
    *,
    attempts: int = 0,
    dry_run: bool = False,
) -> EvalResult:
    """Return the result of a case without an answer to judge."""
    request = {} if asked is None else _request_field(asked, error=message)
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
        attempts=attempts,
        dry_run=dry_run or None,
    )


def unjudged_result(
    identity: CaseIdentity, asked: Asked, answered: Answered, error: KindError, *, dry_run: bool
) -> EvalResult:
    """Return the result of a case whose target replied, but whose answer was not judged. Keeps the paid response.

    Either the reply held no answer (`ProviderError`), or a hook failed between the answer and the evaluators.
    """
    stage: ErrorStage = "provider" if isinstance(error, ProviderError) else "evaluator"
    broken = error_result(identity, stage, error.kind, str(error), asked, dry_run=dry_run)
    return broken.replace(
        candidate_answer=answered.candidate_answer,
        trace_summary=answered.summary,
        finish_reason=answered.finish_reason,
        retrieved_context=answered.retrieved_context,
        execution_metrics=answered.metrics,
        output_messages=_conversation(answered),
        cost_source=answered.cost_source,
        cached=answered.cached or None,
    )


def _conversation(answered: Answered) -> tuple[Message, ...] | None:
    """Return what the target said, if that is more than its answer, which the result holds already."""
    messages = answered.output_messages or ()
    return messages if len(messages) > 1 or any(message.tool_calls for message in messages) else None


def _combined(evaluations: Sequence[EvaluatorResult], *, is_default_judge: bool) -> CombinedScore:
    if is_default_judge:
        only = evaluations[0]
        return CombinedScore(only.score, only.hits, only.misses, only.reasoning)
    return combine_scores(evaluations)


def _judge_retries(evaluations: Sequence[EvaluatorResult]) -> int:
    """Sum up the judge retries of all evaluators, including members of composites."""
    return sum((each.judge_retries or 0) + _judge_retries(each.evaluator_results or ()) for each in evaluations)


def _identity_fields(identity: CaseIdentity) -> JsonObject:
    return {
        "timestamp": _now(),
        "eval_id": identity.eval_id,
        "dataset": identity.dataset,
        "conversation_id": identity.conversation_id,
        "target": identity.target,
        "node_id": identity.node_id,
        "run_id": identity.run_id,
        "eval_file": identity.eval_file,
        "line": identity.line,
        "row": identity.row,
        "combination": identity.combination,
        "case_hash": identity.case_hash,
        "target_hash": identity.target_hash,
        "grading_hash": identity.grading_hash,
        "tags": identity.tags,
        "judge": identity.judge,
        "required": identity.required,
        "group": identity.group,
        "expected_outcome": identity.expected_outcome,
        "reference_answer": identity.reference_answer,
        "shard": identity.shard,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _request_field(asked: Asked, error: str | None = None) -> JsonObject:
    prompt, paths = asked.prompt.in_words(), list(asked.guideline_paths)
    failed = {} if error is None else {"guideline_paths": paths, "error": error}
    if asked.is_agent:
        return {"agent_provider_request": {"question": prompt.question, "guideline_paths": paths} | failed}
    if prompt.chat_prompt is not None:
        return {"lm_provider_request": {"chat_prompt": [m.to_plain() for m in prompt.chat_prompt]} | failed}
    return {"lm_provider_request": {"question": prompt.question, "guidelines": prompt.guidelines} | failed}
