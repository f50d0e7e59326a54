"""Evaluators of users: kinds that a hook adds as a factory, and the scores that code of users makes."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

from pydantic import ConfigDict, Field, PrivateAttr, TypeAdapter, ValidationError

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.shared import ROUNDING, require_judgements
from pytest_agentv.model.base import JsonObject, Record, own_copy
from pytest_agentv.model.kind import Part
from pytest_agentv.model.results import EvaluatorResult, Score
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
        spec = EvaluatorSpec(self.label, self.kind, own_copy(self.config), self.weight)
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


_SCORE: Final = TypeAdapter(Score)


def recordable(score: Any, what: str) -> Any:
    """Return a score from user code as results files have it. Raises `EvaluatorError` if it cannot be recorded.

    Also if a member of it could not judge, as in a built-in composite: the status of the case is then `error`.
    """
    if not isinstance(score, Score):
        return score  # `build_result` reports that, and a value that is no number
    refused = f"{what} returned a Score that cannot be recorded:"
    try:
        read = _SCORE.validate_python(score.replace(value=0.0)).replace(value=score.value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise EvaluatorError(f"{refused} `{'.'.join(map(str, first['loc']))}`: {first['msg']}") from None
    if fault := next(_faults(read), None):
        raise EvaluatorError(f"{refused} {fault}")
    if read.error is None and read.results:
        try:
            require_judgements(read.results)
        except EvaluatorError as error:
            error.results = read.results
            raise
    return read


def _faults(score: Score) -> Iterator[str]:
    """Yield what the types of the fields do not tell: data that is no JSON, and members with an impossible score."""
    for name in ("request", "details"):
        if fault := json_fault(getattr(score, name)):
            yield f"its `{name}` {fault}"
    for member in _members(score.results or ()):
        if not -ROUNDING <= member.score <= 1 + ROUNDING:
            yield f"the score of its member {member.name!r} is {member.score}: expected a number from 0 to 1"
        for name in ("evaluator_provider_request", "details"):
            if fault := json_fault(getattr(member, name)):
                yield f"the `{name}` of its member {member.name!r} {fault}"


def _members(results: Sequence[EvaluatorResult]) -> Iterator[EvaluatorResult]:
    for result in results:
        yield result
        yield from _members(result.evaluator_results or ())


def recordable_members(members: Any) -> tuple[EvaluatorResult, ...] | None:
    """Return the members that an error from user code holds, with tuples; None if they cannot be recorded."""
    try:
        found: tuple[EvaluatorResult, ...] = recordable(Score(0.0, results=members, error="no judgement"), "it").results
    except EvaluatorError:
        return None
    return found
