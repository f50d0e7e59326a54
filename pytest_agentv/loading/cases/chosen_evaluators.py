"""Chooses the evaluators of a case: its own, else those of its file. Tells whether they need an expected outcome."""

from typing import Final

from pytest_agentv.loading.cases.written import WrittenCase
from pytest_agentv.loading.keys import EVALUATOR_LIST_KEYS
from pytest_agentv.loading.places import Place, first_key
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.cases import AnyEvaluator

_OWN_WORDS: Final = ("rubrics", "prompt", "prompt_path")


def choose_evaluators(written: WrittenCase) -> tuple[AnyEvaluator, ...] | None:
    """Return the evaluators of the case, else those of its file; None if there are none at all.

    Source: agentv-formats 1.6, 6.4.
    """
    value, place = written.value, written.place
    rubrics: tuple[AnyEvaluator, ...] = ()
    if value.get("rubrics") is not None:
        from pytest_agentv.loading.cases.evaluators import load_case_rubrics  # noqa: PLC0415 - imports pydantic

        rubrics = load_case_rubrics(written.scope(value, place))
    own = _load_nearest(written, written.execution, value, place)
    # Cases without evaluators of their own share the tuple of their file, which is hashed only once.
    return rubrics + (_of_file(written) if own is None else own) or None


def wants_outcome(evaluator: AnyEvaluator) -> bool:
    """Whether an evaluator, or one of its members, uses the expected outcome."""
    return any(each.kind == "llm_judge" and not any(map(each.to_plain().get, _OWN_WORDS)) for each in evaluator.walk())


def _of_file(written: WrittenCase) -> tuple[AnyEvaluator, ...]:
    known, key = written.context.file_evaluators, (written.suite.path, tuple(written.variables or ()))
    found = known.get(key)
    if found is None:
        lists = {key: each for key, each in written.suite.header.items() if key in ("execution", *EVALUATOR_LIST_KEYS)}
        place = written.header_place([])
        filled = written.fill(lists, place, is_check=True)
        is_alike = filled is lists and not place.problems  # a value of one case may be what cannot be filled in
        specs = _load_nearest(written, filled.get("execution") or {}, filled, place)
        found = specs or (), tuple(place.problems)
        if is_alike:  # evaluators with variables differ by case
            known[key] = found
    written.place.problems.extend(found[1])
    return found[0]


def _load_nearest(
    written: WrittenCase, execution: JsonObject, beside: JsonObject, place: Place
) -> tuple[AnyEvaluator, ...] | None:
    """Load the first list of evaluators; None if there is none. An empty list means the default judge."""
    for mapping, keys in ((execution, ("execution",)), (beside, ())):
        key = first_key(mapping, EVALUATOR_LIST_KEYS)
        if key is not None:
            from pytest_agentv.loading.cases.evaluators import load_evaluators  # noqa: PLC0415 - imports pydantic

            return load_evaluators(written.scope(mapping[key], place.at(*keys, key)), written.share)
    return None
