"""Runs one evaluator, and always returns an `EvaluatorResult`."""

import inspect
import time
from functools import cache
from typing import Any, Final, NamedTuple

from pytest_agentv.errors import ErrorKind, EvaluatorError, KindError
from pytest_agentv.evaluators.context import Context, Services, for_own_code, metering, services_for_own_code
from pytest_agentv.evaluators.shared import clamping_warnings, narrowed, negated, shared_key, with_requirement
from pytest_agentv.model.cases import AnyEvaluator
from pytest_agentv.model.results import EvaluatorResult, Score, clamp_score, is_score, verdict_of
from pytest_agentv.model.text import json_fault
from pytest_agentv.runtime.user_code import attempt_async, attempt_here, run_in_thread, told, user_traceback


class _Took(NamedTuple):
    """The duration and the figures of a judgement."""

    duration_ms: float | None = None
    judge_model: str | None = None


_NOTHING: Final = _Took()


async def run_evaluator(evaluator: AnyEvaluator, context: Context) -> EvaluatorResult:
    """Evaluate an answer. A failure becomes a result with score 0 and `error`. Only a cancellation is raised.

    Source: agentv-formats 6.10.
    """
    if context.dry_run or not may_ask_models(evaluator):
        return await _run(evaluator, context)

    with metering() as meter:
        result = await _run(evaluator, context)
    return result.replace(judge_metrics=meter.total)


async def _run(evaluator: AnyEvaluator, context: Context) -> EvaluatorResult:
    started = time.perf_counter()
    # Users' evaluators may raise anything. The other evaluators continue.
    attempt = attempt_here if evaluator.own_code is None else attempt_async
    outcome = await attempt(lambda: judge(evaluator, context))
    duration_ms = round((time.perf_counter() - started) * 1000, 3)
    asked = context.services.judge if evaluator.asks_judge else None
    took = _Took(duration_ms, getattr(asked, "model", None) or getattr(asked, "name", None))
    try:
        return build_result(evaluator, outcome.get(), took)
    except BaseException as error:  # noqa: BLE001 - as above
        failed = _failed(evaluator, error, took)
        if context.dry_run:
            from pytest_agentv.evaluators.script import is_of_mock  # noqa: PLC0415 - only for failures in dry runs

            if is_of_mock(error):
                return failed.replace(error=None, error_kind=None)
        return failed


def _failed(evaluator: AnyEvaluator, error: BaseException, took: _Took) -> EvaluatorResult:
    if not isinstance(error, KindError):
        return failed_result(evaluator, user_traceback(error), "crash", None, took)
    output: object = None
    members = None
    if isinstance(error, EvaluatorError):
        output, members = error.output, error.results
    if members is not None and evaluator.own_code is not None:
        from pytest_agentv.evaluators.own import recordable_members  # noqa: PLC0415 - for kinds of users only

        members = recordable_members(members)
    printed = output if isinstance(output, str | None) else repr(output)  # users may give anything
    return failed_result(evaluator, told(error), error.kind, printed, took).replace(evaluator_results=members)


def failed_result(
    evaluator: AnyEvaluator, message: str, kind: ErrorKind, raw_output: str | None, took: _Took
) -> EvaluatorResult:
    """Build the record of an evaluator that could not judge."""
    return EvaluatorResult(
        name=evaluator.label,
        type=evaluator.kind,
        score=0.0,
        weight=evaluator.weight,
        verdict="fail",
        misses=(f"Evaluator '{evaluator.label}' failed: {message}",),
        reasoning=message,
        raw_output=raw_output,
        error=message,
        error_kind=kind,
        judge_model=took.judge_model,
        duration_ms=took.duration_ms,
    )


async def judge(evaluator: AnyEvaluator, context: Context) -> Score:
    """Judge the answer, or the part that `path` chooses; negate the judgement, and check `required`.

    Raises what the evaluator raises.
    """
    shown: Context | Score = context
    if shared_key(evaluator, "path") is not None:
        from pytest_agentv.evaluators.judge_reply import off_loop  # noqa: PLC0415 - only for evaluators with a path

        shown = await off_loop(len(context.candidate_answer), narrowed, evaluator, context)
    if isinstance(shown, Context):
        score = await _judge(evaluator, shown if evaluator.own_code is None else for_own_code(shown))
        if evaluator.own_code is not None:
            from pytest_agentv.evaluators.own import recordable  # noqa: PLC0415 - for kinds of users only

            score = recordable(score, f"evaluate() of {evaluator.label!r}")
        if isinstance(score, Score):  # evaluators of users may return anything, for example a class
            if score.error is not None and not score.error.strip():  # as of `str(error)` for an error without a text
                reason = "evaluate() returned a Score with an empty `error`, which does not say why it could not judge"
                score = score.replace(error=reason)
            if shared_key(evaluator, "negate") is True:
                score = negated(score)
    else:
        score = shown
    if shared_key(evaluator, "required") is True and isinstance(score, Score):
        return with_requirement(evaluator, score, context.threshold)
    return score


async def _judge(evaluator: AnyEvaluator, context: Context) -> Score:
    found: Any
    if _is_async(type(evaluator)):
        found = evaluator.evaluate(context)
        return await found  # type: ignore[no-any-return]
    found = await run_in_thread(lambda: evaluator.evaluate(context), "agentv-evaluator")
    return await found if inspect.isawaitable(found) else found  # type: ignore[no-any-return]


@cache
def _is_async(kind: type[AnyEvaluator]) -> bool:
    return inspect.iscoroutinefunction(kind.evaluate)


def build_result(evaluator: AnyEvaluator, score: Score, took: _Took = _NOTHING) -> EvaluatorResult:
    """Build the record of a judgement. Raises `EvaluatorError` for a value of another type."""
    if not isinstance(score, Score):
        raise EvaluatorError(f"evaluate() returned {_type_of(score)}, expected a Score")
    if score.details is not None and (fault := json_fault(score.details)):
        raise EvaluatorError(f"its `details` cannot be recorded: they {fault}")
    if not is_score(score.value):
        raise EvaluatorError(f"evaluate() returned the score {score.value!r}, expected a number from 0 to 1")
    value = clamp_score(score.value)
    return EvaluatorResult(
        name=evaluator.label,
        type=evaluator.kind,
        score=value,
        weight=evaluator.weight,
        verdict=score.verdict or verdict_of(value),
        hits=tuple(score.hits),
        misses=tuple(score.misses),
        reasoning=score.reasoning,
        evaluator_provider_request=score.request,
        evaluator_results=score.results,
        details=score.details,
        raw_output=score.raw_output,
        error=score.error,
        error_kind=None if score.error is None else score.error_kind,
        judge_retries=score.judge_retries,
        unmet_required=score.unmet_required,
        unknown=score.unknown,
        unchecked=score.unchecked,
        warnings=(*score.warnings, *clamping_warnings(score.value, value)) or None,
        required=shared_key(evaluator, "required") is True or None,
        judge_model=took.judge_model,
        duration_ms=took.duration_ms,
    )


def _type_of(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def may_ask_models(evaluator: AnyEvaluator) -> bool:
    """Whether an evaluator, or a member of one, asks a model, or runs code that may."""
    return any(
        each.asks_judge or each.calls_targets or each.embeds_with is not None or each.own_code is not None
        for each in evaluator.walk()
    )


def prepare(evaluator: AnyEvaluator, services: Services) -> AnyEvaluator:
    """Return the evaluator that judges, before the target is called. Raises `EvaluatorError`.

    A `prepare` of a user that returns nothing only checks something.
    """
    if evaluator.own_code is None:
        return evaluator.prepare(services)  # type: ignore[return-value]
    found: Any = evaluator.prepare(services_for_own_code(services))
    if found is None:
        found = evaluator
    if hasattr(found, "walk") and not isinstance(found, type):
        from pytest_agentv.model.kind import member_fault  # noqa: PLC0415 - for kinds of users only

        if fault := member_fault(found):
            raise EvaluatorError(fault, "config")
        return found  # type: ignore[no-any-return]
    if inspect.iscoroutine(found):
        found.close()  # else Python warns that nobody awaits it
    kind = "a coroutine: write `def prepare`, without `async`" if inspect.isawaitable(found) else _type_of(found)
    raise EvaluatorError(f"prepare() of {evaluator.kind!r} returned {kind}, expected an Evaluator or None", "config")
