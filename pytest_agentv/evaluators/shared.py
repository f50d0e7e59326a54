"""The keys that all kinds share: judge a part of the answer, negate the verdict, be required."""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar, get_args

from pytest_agentv.errors import ErrorKind, EvaluatorError
from pytest_agentv.evaluators.context import Context
from pytest_agentv.models.base import ABSENT, Json, JsonObject, is_amount, is_measure
from pytest_agentv.models.cases import AnyEvaluator
from pytest_agentv.models.scores import EvaluatorResult, Score, Verdict, clamp_score, is_score
from pytest_agentv.models.text import compact_json, json_fault
from pytest_agentv.models.traces import JudgeMetrics

T = TypeVar("T")

KEYS: Final = ("required", "negate", "path")
SLACK: Final = 1e-9
"""How far a float may be below a score that it has to reach."""

_TEXTS: Final = ("reasoning", "raw_output", "error", "unknown", "unchecked")
_LISTS: Final = ("hits", "misses", "warnings")


class _Expected(NamedTuple):
    """What a value of a score has to be."""

    type: Any
    text: str


_TYPES: Final[Mapping[str, _Expected]] = {
    **dict.fromkeys(_TEXTS, _Expected(str | None, "a text or None")),
    **dict.fromkeys(_LISTS, _Expected(list | tuple, "a list of texts")),
    "unmet_required": _Expected(list | tuple | None, "a list of texts or None"),
    **dict.fromkeys(("request", "details"), _Expected(Mapping | None, "a mapping")),
    "results": _Expected(list | tuple | None, "a list of EvaluatorResult or None"),
    "judge_retries": _Expected(int | float | None, "a whole number or None"),
}
_MEMBER_TYPES: Final[Mapping[str, _Expected]] = {
    **{name: _TYPES[name] for name in ("reasoning", "raw_output", "error", "unknown", "unchecked", "judge_retries")},
    **{name: _TYPES[name] for name in ("hits", "misses", "unmet_required", "details")},
    **dict.fromkeys(("name", "type"), _Expected(str, "a text")),
    "judge_model": _TYPES["error"],
    "warnings": _TYPES["unmet_required"],
    "evaluator_results": _TYPES["results"],
    "evaluator_provider_request": _TYPES["request"],
    "required": _Expected(bool | None, "True, False or None"),
    "judge_metrics": _Expected(JudgeMetrics | None, "a JudgeMetrics or None"),
}
"""The same for the members of a score. Their figures and words are checked apart."""
_WORDS: Final[Mapping[str, tuple[str | None, ...]]] = {
    "verdict": (*get_args(Verdict), None),
    "error_kind": get_args(ErrorKind),
}
_NEGATED: Final = "negated: hits and misses are swapped"
_NOT_NEGATED: Final = "negated, but the check could not be made"


def shared_key(evaluator: AnyEvaluator, key: str) -> Any:
    """Return the value of a key that all kinds share; None if the kind has its own key of that name."""
    return None if key in _own_keys(type(evaluator)) else getattr(evaluator, key, None)


@cache
def _own_keys(kind: type[object]) -> frozenset[str]:
    """Return the shared keys that a class redefines. The last class that annotates a key is the base of all kinds."""
    return frozenset(key for key in KEYS if len(list(_definitions(kind, key))) > 1)


def _definitions(kind: type[object], key: str) -> Iterable[type[object]]:
    return (each for each in kind.__mro__ if key in inspect.get_annotations(each))


def narrowed(evaluator: AnyEvaluator, context: Context) -> Context | Score:
    """Return the context of the part to judge, or the score of an answer without that part."""
    path = shared_key(evaluator, "path")
    if path is None:
        return context
    from pytest_agentv.evaluators.comparing.answer_data import locate_part  # noqa: PLC0415 - only for evaluators with a path

    part, miss = locate_part(context.candidate_answer if context.part is ABSENT else context.part, path)
    if part is ABSENT:
        return Score(0.0, misses=(miss,), unchecked=miss)
    return context.replace(candidate_answer=text_of_part(part), part=part)


def text_of_part(part: Json) -> str:
    """Return a text unchanged, and other data as JSON."""
    return part if isinstance(part, str) else compact_json(part)


def _with_tuples(score: Any) -> Any:
    """Return a score from user code, or a member of one, with tuples in place of sets and other iterables of texts."""
    if not isinstance(score, Score | EvaluatorResult):
        return score
    odd: dict[str, Any] = {
        name: tuple(value)
        for name in (*_LISTS, "unmet_required")
        if isinstance(value := getattr(score, name), Iterable)
        and not isinstance(value, list | tuple | str | bytes | Mapping)
    }
    name = "results" if isinstance(score, Score) else "evaluator_results"
    if isinstance(members := getattr(score, name), list | tuple) and members:
        odd[name] = tuple(map(_with_tuples, members))
    return score.replace(**odd) if odd else score


def _score_fault(score: object) -> str | None:
    """Return which value of a score from user code cannot be recorded; None if all can."""
    if not isinstance(score, Score):
        return None  # `build_result` reports that
    for name, expected in _TYPES.items():
        if not isinstance(value := getattr(score, name), expected.type):
            return f"its `{name}` is of type {type(value).__name__}: expected {expected.text}"
    for name, words in _WORDS.items():
        is_read = name != "error_kind" or score.error is not None
        if is_read and getattr(score, name) not in words:
            return f"its `{name}` is none of {', '.join(filter(None, words))}"
    if score.judge_retries is not None and not is_amount(score.judge_retries):
        return "its `judge_retries` is no number of 0 or more"
    return next(_item_faults(score), None) or next(_data_faults("", score.request, None, score.results), None)


def _data_faults(
    place: str, request: JsonObject | None, details: JsonObject | None, members: Sequence[EvaluatorResult] | None
) -> Iterator[str]:
    """Yield which data of a judgement and its members is no JSON. `build_result` looks at the details of the first."""
    name = "evaluator_provider_request" if place else "request"
    for key, data in ((name, request), ("details", details)):
        if data is not None and (fault := json_fault(data)):
            yield f"the values of its `{place}{key}` {fault}"
    for number, each in enumerate(members or ()):
        inner = f"{place}{'evaluator_results' if place else 'results'}[{number}]."
        yield from _data_faults(inner, each.evaluator_provider_request, each.details, each.evaluator_results)


def _item_faults(score: Score) -> Iterator[str]:
    yield from _odd_texts("", score)
    yield from _member_faults("results", score.results or ())


def _member_faults(place: str, members: Sequence[object]) -> Iterator[str]:
    for number, member in enumerate(members):
        where = f"{place}[{number}]"
        if not isinstance(member, EvaluatorResult):
            yield f"its `{where}` is of type {type(member).__name__}: expected an EvaluatorResult"
            continue
        for name, expected in _MEMBER_TYPES.items():
            if not isinstance(value := getattr(member, name), expected.type):
                yield f"its `{where}.{name}` is of type {type(value).__name__}: expected {expected.text}"
        yield from _odd_figures(where, member)
        yield from _odd_texts(f"{where}.", member)
        yield from _member_faults(f"{where}.evaluator_results", member.evaluator_results or ())


def _odd_figures(where: str, member: EvaluatorResult) -> Iterator[str]:
    """Yield the faults of what a member says in numbers and words."""
    if not is_measure(member.score):
        yield f"its `{where}.score` is {member.score!r}: expected a number from 0 to 1"
    for name in ("weight", "duration_ms"):
        if (value := getattr(member, name)) is not None and not is_amount(value):
            yield f"its `{where}.{name}` is {value!r}: expected a number of 0 or more, or None"
    if member.verdict not in get_args(Verdict):
        yield f"its `{where}.verdict` is none of {', '.join(get_args(Verdict))}"
    if member.error_kind not in (*get_args(ErrorKind), None):
        yield f"its `{where}.error_kind` is none of {', '.join(get_args(ErrorKind))}"


def _odd_texts(where: str, value: Score | EvaluatorResult) -> Iterator[str]:
    for name in (*_LISTS, "unmet_required"):
        for item in getattr(value, name) or ():
            if not isinstance(item, str):
                yield f"its `{where}{name}` has a value of type {type(item).__name__}: expected texts"


def recordable(score: T, what: str) -> T:
    """Return a score from user code with tuples. Raises `EvaluatorError` if it cannot be recorded.

    Also if a member of it could not judge, as in a built-in composite: the status of the case is then `error`.
    """
    score = _with_tuples(score)
    if fault := _score_fault(score):
        raise EvaluatorError(f"{what} returned a Score that cannot be recorded: {fault}")
    if isinstance(score, Score) and score.error is None and score.results:
        try:
            require_judgements(score.results)
        except EvaluatorError as error:
            error.results = score.results
            raise
    return score


def require_judgements(members: Sequence[EvaluatorResult]) -> None:
    """Raise `EvaluatorError` if a member could not judge."""
    broken = list(_broken(members))
    if broken:
        reasons = ((member.name, (member.error or "").strip() or "it does not say why") for member in broken)
        message = "; ".join(f"member {name!r} could not judge: {reason}" for name, reason in reasons)
        raise EvaluatorError(message, kind=broken[0].error_kind or "crash", output=broken[0].raw_output)


def _broken(members: Sequence[EvaluatorResult]) -> Iterator[EvaluatorResult]:
    for member in members:
        if member.error is not None:
            yield member
        else:
            yield from _broken(member.evaluator_results or ())


def negated(score: Score) -> Score:
    """Negate a judgement. An error stays unchanged, because it says nothing about the answer.

    A value that is not a number also stays: it is an error, and must not become a pass. A check that was not made
    scores 0 either way. Raises `EvaluatorError` for a score that rests on unknown facts, which would become a pass too.
    """
    if score.error is not None or not is_score(score.value):
        return score
    if score.unknown is not None:
        error = EvaluatorError(f"{score.unknown}: there is nothing to negate", kind="config")
        error.results = score.results
        raise error
    if score.unchecked is not None:
        misses = (score.unchecked, *score.hits)
        return score.replace(
            value=0.0, hits=(), misses=misses, verdict=None, reasoning=_NOT_NEGATED, unmet_required=None
        )
    return score.replace(
        value=1 - score.value,  # not clamped, because a score outside of 0 to 1 causes a warning
        hits=tuple(score.misses),
        misses=tuple(score.hits),
        verdict=None,
        reasoning=f"{_NEGATED}; {score.reasoning}" if score.reasoning else _NEGATED,
        unmet_required=None,
    )


def with_requirement(evaluator: AnyEvaluator, score: Score, threshold: float) -> Score:
    """Return the score with `unmet_required` where a required evaluator is not satisfied."""
    needed = evaluator.required_score(threshold)
    if score.error is not None or clamp_score(score.value) + SLACK >= needed:
        return score
    unmet = (unmet_text(evaluator, score.misses), *(score.unmet_required or ()))
    return score.replace(unmet_required=unmet, verdict="fail")


def unmet_text(evaluator: AnyEvaluator, misses: Sequence[str]) -> str:
    """Say that a required evaluator is not satisfied, with its first miss."""
    return f"{evaluator.label}: {misses[0]}" if misses else evaluator.label
