"""Kinds that a hook adds as a factory, the older form of `pytest_agentv_evaluators`."""

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeAlias

from pydantic import ConfigDict, Field, PrivateAttr

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Context, Evaluator, Services
from pytest_agentv.models.base import JsonObject, Record, own_copy
from pytest_agentv.models.kind import Part
from pytest_agentv.models.records import record
from pytest_agentv.models.scores import Score


@record
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
    """Return the class of a kind that a factory adds."""
    return type("FactoryEvaluator", (FactoryEvaluator,), {"kind": word, "factory": staticmethod(factory)})
