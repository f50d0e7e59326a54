"""Running one evaluator: whatever happens, an `EvaluatorResult` comes back."""

from pytest_agentv.errors import ErrorKind, EvaluatorError, KindError
from pytest_agentv.evaluators.base import EvaluationContext, Evaluator
from pytest_agentv.models.evaluator_configs import EvaluatorSpec
from pytest_agentv.models.scores import EvaluatorResult, Score, clamp_score, verdict_of
from pytest_agentv.runtime.outcomes import attempt_async
from pytest_agentv.runtime.user_errors import describe_error


async def run_evaluator(spec: EvaluatorSpec, evaluator: Evaluator, context: EvaluationContext) -> EvaluatorResult:
    """Evaluate an answer. A failure becomes a result with score 0 and `error`; only cancelling passes through.

    Source: agentv-formats 6.10.
    """
    # Users write evaluators: theirs may raise anything, and the others go on.
    outcome = await attempt_async(lambda: evaluator.evaluate(context))
    try:
        return build_result(spec, outcome.get())
    except KindError as error:
        output = error.output if isinstance(error, EvaluatorError) else None
        return failed_result(spec, str(error), error.kind, output)
    except BaseException as error:  # noqa: BLE001 - as above
        return failed_result(spec, describe_error(error), "crash")


def build_result(spec: EvaluatorSpec, score: Score) -> EvaluatorResult:
    """Build the record of a judgement. Raises `EvaluatorError` when an evaluator returned something else."""
    if not isinstance(score, Score):
        raise EvaluatorError(f"evaluate() returned {type(score).__name__}, expected a Score")
    value = clamp_score(score.value)
    return EvaluatorResult(
        name=spec.name,
        type=spec.type,
        score=value,
        weight=spec.weight,
        verdict=score.verdict or verdict_of(value),
        hits=tuple(score.hits),
        misses=tuple(score.misses),
        reasoning=score.reasoning,
        evaluator_provider_request=score.request,
        evaluator_results=score.results,
        details=score.details,
        raw_output=score.raw_output,
    )


def failed_result(
    spec: EvaluatorSpec, message: str, kind: ErrorKind = "crash", raw_output: str | None = None
) -> EvaluatorResult:
    """Build the record of an evaluator that could not judge."""
    return EvaluatorResult(
        name=spec.name,
        type=spec.type,
        score=0.0,
        weight=spec.weight,
        verdict="fail",
        misses=(f"Evaluator '{spec.name}' failed: {message}",),
        reasoning=message,
        raw_output=raw_output,
        error=message,
        error_kind=kind,
    )
