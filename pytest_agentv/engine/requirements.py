"""Holds kept judgements against another threshold, which `required` evaluators have to reach as well."""

from collections.abc import Iterator, Sequence

from pytest_agentv.engine.scoring import Threshold, decide_status
from pytest_agentv.engine.targets.judging import evaluators_of
from pytest_agentv.evaluators.shared import SLACK, shared_key, unmet_text
from pytest_agentv.models.cases import AnyEvaluator, EvalCase
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.scores import EvaluatorResult, unmet_required, verdict_of


def held_against(result: EvalResult, case: EvalCase, threshold: Threshold) -> EvalResult | None:
    """Return a kept result with its status under a threshold; None: only a new judgement tells what is met."""
    before, unmet, found = result.threshold, result.unmet_required, result.evaluator_results
    if before is not None and before != threshold.value and asks_for_threshold(case):
        found = _judged_again(evaluators_of(case), found or (), before, threshold.value)
        if found is None:
            return None
        unmet = unmet_required(found) or None
    status = decide_status(result.score, threshold.value, unmet)
    rules = {"threshold": threshold.value, "threshold_source": threshold.source}
    return result.replace(status=status, unmet_required=unmet, evaluator_results=found, **rules)


def rejudged(result: EvalResult, case: EvalCase, threshold: Threshold) -> EvalResult | None:
    """Return a kept answer with its status under the current threshold. A hook's decision stands.

    None: only a new judgement tells.
    """
    if result.status == "error" or result.assertion is not None or result.dry_run:
        return result
    return held_against(result, case, threshold)


def asks_for_threshold(case: EvalCase) -> bool:
    """Whether a `required` evaluator of a case has to reach the threshold of the case."""
    members = (member for evaluator in evaluators_of(case) for member in evaluator.walk())
    return any(
        shared_key(each, "required") is True and each.required_score(0.0) != each.required_score(1.0)
        for each in members
    )


def _judged_again(
    evaluators: Sequence[AnyEvaluator], results: Sequence[EvaluatorResult], before: float, now: float
) -> tuple[EvaluatorResult, ...] | None:
    if len(evaluators) != len(results):
        return None
    if any(_crosses(member, before, now) for result in results for member in _members(result)):
        return None  # the composite around it would have to be combined again
    pairs = zip(evaluators, results, strict=True)
    return tuple(_with_requirement(evaluator, result, before, now) for evaluator, result in pairs)


def _members(result: EvaluatorResult) -> Iterator[EvaluatorResult]:
    for member in result.evaluator_results or ():
        yield member
        yield from _members(member)


def _crosses(result: EvaluatorResult, before: float, now: float) -> bool:
    return result.required is True and _reaches(result, before) is not _reaches(result, now)


def _reaches(result: EvaluatorResult, needed: float) -> bool:
    return result.score + SLACK >= needed


def _with_requirement(evaluator: AnyEvaluator, result: EvaluatorResult, before: float, now: float) -> EvaluatorResult:
    was_met, is_met = (_reaches(result, evaluator.required_score(each)) for each in (before, now))
    if not result.required or was_met is is_met:
        return result
    known = result.unmet_required or ()  # its own text is the first
    unmet = known[1:] if is_met else (unmet_text(evaluator, result.misses), *known)
    return result.replace(unmet_required=unmet or None, verdict="fail" if unmet else verdict_of(result.score))
