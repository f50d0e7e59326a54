"""Loads lists of evaluators. Reads each item as the kind that its `type` names (agentv-formats 6).

Imports pydantic: import this lazily.
"""

from typing import Any

from pytest_agentv.loading.cases.references import Scope
from pytest_agentv.loading.kind_reader import find_kind, known_keys, read_part
from pytest_agentv.loading.places import misspelling
from pytest_agentv.models.cases import AnyEvaluator
from pytest_agentv.models.kind import Kind

_TYPE = "type"
_RUBRIC = "rubric"
"""The kind and the name of the judge for the `rubrics` of a case."""


def load_evaluators(scope: Scope) -> tuple[AnyEvaluator, ...]:
    """Check a list of evaluators and read their files.

    Leaves out invalid evaluators, and notes an error at the place of each.
    Source: agentv-formats 6.1, 6.2; evaluation-2025-11, "User defines multiple evaluators in YAML".
    """
    if not isinstance(scope.value, list):
        hint = "put `- ` before its first key" if isinstance(scope.value, dict) else None
        scope.place.expected("a list of evaluators", scope.value, hint)
        return ()
    loaded = (_load_evaluator(scope.at(item, index)) for index, item in enumerate(scope.value))
    return tuple(evaluator for evaluator in loaded if evaluator is not None)


def load_case_rubrics(scope: Scope) -> tuple[AnyEvaluator, ...]:
    """Return the judge for the `rubrics` of a case. `scope` is that of the case."""
    rubrics = scope.value["rubrics"]
    if rubrics == []:
        return ()
    judge = read_part(scope.evaluators[_RUBRIC], {"name": _RUBRIC, "rubrics": rubrics}, scope.place)
    return () if judge is None else (judge,)


def _load_evaluator(scope: Scope) -> AnyEvaluator | None:
    if isinstance(scope.value, Kind) and hasattr(scope.value, "evaluate"):
        adopted: AnyEvaluator | None = adopt(scope)
        return adopted
    if not isinstance(scope.value, dict):
        scope.place.expected("an evaluator: a mapping with name and type", scope.value)
        return None
    kind: Any = find_kind(scope.evaluators, scope.value, _TYPE, scope.place)
    if kind is None:
        return None
    found: Any = read_part(kind, scope.value, scope.place, context=scope, elsewhere=(_TYPE,))
    if scope.value.get("name") is None:
        hint = misspelling("name", scope.value, (*known_keys(kind), _TYPE))
        scope.place.at("name").error("is missing", hint)
        return None
    return found  # type: ignore[no-any-return]


def adopt(scope: Scope) -> Any:
    """Return an evaluator that was built in Python with its files read; None after a fault."""
    given: Any = scope.value
    keys = {name: getattr(given, name) for name in given.model_fields_set}
    return read_part(type(given), keys | (given.model_extra or {}), scope.place, context=scope)
