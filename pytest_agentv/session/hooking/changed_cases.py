"""Checks a case that a hook changed: files are checked when they are loaded, and code of users may write anything."""

from collections.abc import Iterator
from typing import Final

from pytest_agentv.models.base import is_amount, is_number
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.options.values import MAX_REPEAT

_SHARES: Final = ("threshold", "min_pass_rate")
_TEXTS: Final = ("dataset", "expected_outcome", "question", "reference_answer")
_TEXTS_OR_NONE: Final = ("conversation_id", "target", "group")


def changed_fault(before: EvalCase, case: EvalCase) -> str | None:
    """Return what a changed case must not have, such as `threshold=2: expected a number from 0 to 1`; None: nothing."""
    return next(_faults(before, case), None)


def _faults(before: EvalCase, case: EvalCase) -> Iterator[str]:
    if case.eval_id != before.eval_id:
        yield f"eval_id={case.eval_id!r}: expected {before.eval_id!r}, since it names the case in the results"
    for name in _SHARES:
        share = getattr(case, name)
        if share is not None and not (is_number(share) and 0 <= share <= 1):
            yield f"{name}={share!r}: expected a number from 0 to 1, or None"
    if case.repeat is not None and (type(case.repeat) is not int or not 1 <= case.repeat <= MAX_REPEAT):
        yield f"repeat={case.repeat!r}: expected a whole number from 1 to {MAX_REPEAT}, or None"
    if not isinstance(case.required, bool):
        yield f"required={case.required!r}: expected True or False"
    for name in (*_TEXTS, *_TEXTS_OR_NONE):
        text = getattr(case, name)
        if not isinstance(text, str) and (text is not None or name in _TEXTS):
            yield f"{name}={text!r}: expected a text{'' if name in _TEXTS else ', or None'}"
    if case.evaluators != before.evaluators:
        yield from _evaluator_faults(case.evaluators)


def _evaluator_faults(evaluators: object) -> Iterator[str]:
    from pytest_agentv.evaluators.base import Evaluator  # noqa: PLC0415 - costs pydantic

    if evaluators is None:
        return
    if not isinstance(evaluators, tuple | list) or not evaluators:
        yield f"evaluators={evaluators!r}: expected a tuple of at least one Evaluator, or None for the default judge"
        return
    for index, each in enumerate(evaluators):
        if not isinstance(each, Evaluator):
            yield f"evaluators[{index}]={each!r}: expected an Evaluator"
        elif not is_amount(each.weight):
            yield f"the weight {each.weight!r} of evaluator {each.label!r}: expected a number of 0 or more"
