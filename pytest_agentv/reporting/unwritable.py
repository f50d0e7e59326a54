"""Puts an error in the place of a result that no file can hold."""

import dataclasses
from collections.abc import Callable
from typing import Final

from pytest_agentv.models.records import values_of
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.scores import ErrorDetail

_BLANK: Final = EvalResult("", "", "", 0.0, (), (), "", "")


def unwritable_result(result: EvalResult, error: Exception, serialize: Callable[[EvalResult], str]) -> EvalResult:
    """Return a result as an error of its case, without the fields that `serialize` refuses. The rest was paid for."""
    names = [field.name for field in dataclasses.fields(EvalResult)]
    kept = {
        name: value
        for name, value in zip(names, values_of(result), strict=True)
        if _is_taken(_BLANK.replace(**{name: value}), serialize)
    }
    message = f"the result cannot be recorded: {type(error).__name__}: {error}"
    broken = {"score": 0.0, "status": "error", "error": message, "error_detail": ErrorDetail("evaluator", "crash")}
    return _BLANK.replace(**{**kept, **broken})


def _is_taken(result: EvalResult, serialize: Callable[[EvalResult], str]) -> bool:
    try:
        serialize(result)
    except Exception:  # noqa: BLE001 - it is looked for
        return False
    return True
