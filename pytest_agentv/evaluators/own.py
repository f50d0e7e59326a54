"""Evaluators of users: kinds that a hook adds as a factory, and the scores that code of users makes."""

import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar, get_args

from pydantic import ConfigDict, Field, PrivateAttr

from pytest_agentv.errors import ErrorKind, EvaluatorError
from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.shared import clamping_warnings, require_judgements
from pytest_agentv.model.base import JsonObject, Record, is_amount, is_measure, own_copy
from pytest_agentv.model.kind import Part
from pytest_agentv.model.messages import JudgeMetrics
from pytest_agentv.model.results import EvaluatorResult, Score, Verdict, clamp_score
from pytest_agentv.model.text import json_fault


@dataclass(frozen=True, slots=True)
class EvaluatorSpec(Record):
    """The argument of a factory: an evaluator of an eval file."""

    name: str
    """The name in results."""
    type: str
    """The word after `type:`."""
    config: JsonObject
    """All its keys as written."""
    weight: float = 1.0
    """Its share in the case's score, 0 or more; 0 reports without counting."""


EvaluatorFactory: TypeAlias = Callable[[EvaluatorSpec, Services], Any]
"""Returns an object with `evaluate(context) -> Score`, async or not."""


class FactoryEvaluator(Evaluator):
    """An evaluator that a factory makes, once for each case."""

    model_config = ConfigDict(extra="allow")

    path: Any = Field(default=None, description="the evaluator's own, as other keys are")

    factory: ClassVar[EvaluatorFactory]

    _live: Any = PrivateAttr(default=None)

    @property
    def config(self) -> JsonObject:
        """Return the keys as they were written."""
        return {"type": self.kind, **Part.to_plain(self)}

    @property
    def own_code(self) -> object:
        return type(self).factory

    def prepare(self, services: Services) -> Evaluator:
        """Call the factory. An exception is an error of the case."""
        prepared = self.model_copy()
        spec = EvaluatorSpec(self.label, self.kind, own_copy(self).config, self.weight)
        live = prepared._live = type(self).factory(spec, services)
        if not callable(getattr(live, "evaluate", None)):
            found = f"the factory of {self.kind!r} returned a value of type {type(live).__name__}"
            raise EvaluatorError(f"{found}, expected an object with `evaluate`", "config")
        return prepared

    def evaluate(self, context: Context) -> Awaitable[Score] | Score:
        if self._live is None:
            raise EvaluatorError(f"evaluator {self.label!r} was not prepared")
        score: Awaitable[Score] | Score = self._live.evaluate(context)
        return score


def factory_class(word: str, factory: EvaluatorFactory) -> type[FactoryEvaluator]:
    """Return the class of a kind that a hook adds as a factory, the older form of `pytest_agentv_evaluators`."""
    return type("FactoryEvaluator", (FactoryEvaluator,), {"kind": word, "factory": staticmethod(factory)})


T = TypeVar("T")
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
    **{name: _TYPES[name] for name in (*_TEXTS, "judge_retries")},
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


def recordable(score: T, what: str) -> T:
    """Return a score from user code with tuples. Raises `EvaluatorError` if it cannot be recorded.

    Also if a member of it could not judge, as in a built-in composite: the status of the case is then `error`.
    """
    score = _with_tuples(score)
    if fault := _score_fault(score):
        raise EvaluatorError(f"{what} returned a Score that cannot be recorded: {fault}")
    if not isinstance(score, Score) or score.results is None:
        return score
    score = score.replace(results=tuple(map(_settled, score.results)))
    if fault := _unreadable(score.results or ()):
        raise EvaluatorError(f"{what} returned a Score that cannot be recorded: {fault}")
    if score.error is None and score.results:
        try:
            require_judgements(score.results)
        except EvaluatorError as error:
            error.results = score.results
            raise
    return score


def _with_tuples(score: Any) -> Any:
    """Return a score from user code, or a member of one, with tuples in place of lists, sets and other iterables."""
    if not isinstance(score, Score | EvaluatorResult):
        return score
    odd: dict[str, Any] = {
        name: tuple(value)
        for name in (*_LISTS, "unmet_required")
        if isinstance(value := getattr(score, name), Iterable) and not isinstance(value, tuple | str | bytes | Mapping)
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
    if not _is_count(score.judge_retries):
        return "its `judge_retries` is no whole number of 0 or more"
    faults = itertools.chain(
        _odd_texts("", score),
        _member_faults("results", score.results or ()),
        _data_faults("", score.request, None, score.results),
    )
    return next(faults, None)


def _odd_texts(where: str, value: Score | EvaluatorResult) -> Iterator[str]:
    for name in (*_LISTS, "unmet_required"):
        for item in getattr(value, name) or ():
            if not isinstance(item, str):
                yield f"its `{where}{name}` has a value of type {type(item).__name__}: expected texts"


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
    if not _is_count(member.judge_retries):
        yield f"its `{where}.judge_retries` is {member.judge_retries!r}: expected a whole number of 0 or more, or None"
    if member.verdict not in get_args(Verdict):
        yield f"its `{where}.verdict` is none of {', '.join(get_args(Verdict))}"
    if member.error_kind not in (*get_args(ErrorKind), None):
        yield f"its `{where}.error_kind` is none of {', '.join(get_args(ErrorKind))}"


def _is_count(value: float | None) -> bool:
    """Whether a figure is unknown, or a whole number of 0 or more."""
    return value is None or (is_amount(value) and value == int(value))


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


def _settled(member: EvaluatorResult) -> EvaluatorResult:
    """Return a member without fault as results files have it: with tuples, and with a score from 0 to 1."""
    changes: dict[str, object] = {
        name: tuple(value)
        for name in (*_LISTS, "unmet_required", "evaluator_results")
        if isinstance(value := getattr(member, name), list)
    }
    if member.evaluator_results:
        changes["evaluator_results"] = tuple(map(_settled, member.evaluator_results))
    score = clamp_score(member.score)
    if score != member.score:
        changes["score"] = score
        changes["warnings"] = (*(member.warnings or ()), *clamping_warnings(member.score, score)) or None
    return member.replace(**changes) if changes else member


def _unreadable(members: Sequence[EvaluatorResult]) -> str | None:
    """Return which value of the members a resumed run could not read, and would pay for again; None: none."""
    from pydantic import ValidationError  # noqa: PLC0415 - for scores with members only

    for number, member in enumerate(members):
        try:
            EvaluatorResult.from_plain(member.to_plain())
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, (f"results[{number}]", *first["loc"])))
            return f"its `{place}` cannot be read again: {first['msg']}"
    return None


def recordable_members(members: Any) -> tuple[EvaluatorResult, ...] | None:
    """Return the members that an error from user code holds, with tuples; None if they cannot be recorded."""
    try:
        return recordable(Score(0.0, results=members, error="it could not judge"), "it").results
    except EvaluatorError:
        return None
