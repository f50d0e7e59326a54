"""The `composite` evaluator: several evaluators side by side, whose results an aggregator combines."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final, Self, TypeAlias

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, model_validator

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Context, Evaluator, Services, or_sync, scope_of
from pytest_agentv.evaluators.judging.grading import require_judge
from pytest_agentv.evaluators.kinds.composing.aggregators import AGGREGATORS, Aggregator, WeightedAverage
from pytest_agentv.evaluators.kinds.judges.statements import Statements
from pytest_agentv.evaluators.metering import current_meter
from pytest_agentv.evaluators.run import may_ask_models, prepare, run_evaluator
from pytest_agentv.evaluators.shared import require_judgements
from pytest_agentv.loading.cases.evaluators import adopt, load_evaluators
from pytest_agentv.loading.keys import EVALUATOR_LIST_KEYS
from pytest_agentv.loading.kind_reader import find_kind, read_part
from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.models.base import Json
from pytest_agentv.models.kind import NOT_EMPTY, Items, definition, expected, spelled
from pytest_agentv.models.scores import Score, explicitly_unmet, judge_metrics_of

MEMBERS_SCHEMA: Final = {"type": "array", "items": definition("evaluator"), "minItems": 1}

_OF_THE_VERDICT: Final = ("name", "weight", "required", "negate")


def _read_members(value: Json, info: ValidationInfo) -> Json:
    if not isinstance(value, list | tuple):
        raise expected("a list")
    scope = scope_of(info)
    return value if scope is None else load_evaluators(scope.at(list(value), "evaluators"))


def _read_aggregator(value: Json, info: ValidationInfo) -> Json:
    """Read an aggregator. If that fails, note the fault and return a mean instead."""
    scope = scope_of(info)
    if scope is None:
        return value
    inner = scope.at(value, "aggregator")
    if isinstance(value, Aggregator):
        return adopt(inner) or WeightedAverage()
    if not isinstance(value, dict):
        raise expected("a mapping")
    kind = find_kind(AGGREGATORS, value, "type", inner.place)
    return (kind and read_part(kind, value, inner.place, context=inner, elsewhere=("type",))) or WeightedAverage()


Members: TypeAlias = Annotated[
    Items[Evaluator], BeforeValidator(_read_members), NOT_EMPTY, WithJsonSchema(MEMBERS_SCHEMA)
]


class Composite(Evaluator):
    """Several evaluators with one score. They run side by side, and an aggregator combines their results.

    If a member cannot judge, the composite cannot judge either: a score of the others would mislead.
    """

    kind = "composite"
    short_key = None

    evaluators: Annotated[
        Items[Evaluator], BeforeValidator(_read_members), NOT_EMPTY, WithJsonSchema(MEMBERS_SCHEMA)
    ] = spelled(*EVALUATOR_LIST_KEYS, description="the members")
    aggregator: Annotated[Aggregator, BeforeValidator(_read_aggregator), WithJsonSchema(definition("aggregator"))] = (
        Field(description="how their scores are combined")
    )

    @model_validator(mode="after")
    def _note_weights(self, info: ValidationInfo) -> Self:
        scope = scope_of(info)
        if scope is None or not isinstance(self.aggregator, WeightedAverage):
            return self
        names = [member.label for member in self.evaluators]
        for name in self.aggregator.weights:
            if name not in names:
                hint = did_you_mean(name, names) or f"members: {', '.join(names)}"
                place = scope.place.at("aggregator", "weights", name)
                place.unread("a weight for a member that there is none of", hint)
        for member in self.evaluators:
            is_weighed = isinstance(member, Statements) or member.label in self.aggregator.weights
            if member.weight != 1 and not is_weighed:
                told = f"the member {member.label!r} has a `weight`, which is not read"
                scope.place.warn(told, "write it into `weights` of the aggregator")
        return self

    @property
    def scripts(self) -> Sequence[tuple[str | None, tuple[str, ...]]]:
        return self.aggregator.scripts

    def walk(self) -> Iterator[Evaluator]:
        yield self
        for member in self.evaluators:
            yield from member.walk()

    @property
    def asks_judge(self) -> bool:
        return self.aggregator.asks_judge or any(member.asks_judge for member in self.evaluators)

    @property
    def calls_targets(self) -> bool:
        return any(member.calls_targets for member in self.evaluators)

    def prepare(self, services: Services) -> Evaluator:
        if not isinstance(self.aggregator, WeightedAverage):
            _require_unique_names(member.label for member in self.evaluators)
        if self.aggregator.asks_judge:
            require_judge(services, "a composite's `llm_judge` aggregator")
        return self.model_copy(update={"evaluators": tuple(prepare(member, services) for member in self.evaluators)})

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        """Judge by all members. Raises `EvaluatorError` if a member or the aggregator could not judge."""
        results = await asyncio.gather(*(run_evaluator(*each) for each in self._members(context)))
        try:
            require_judgements(results)
            score = await self.aggregator.combine(results, context)
        except EvaluatorError as error:  # the findings of the other members were paid for
            error.results = tuple(result.replace(weight=None) for result in results)
            raise
        except Exception:
            current_meter().take_over(judge_metrics_of(results))  # the record of a crash has no members
            raise
        missed = explicitly_unmet(results)
        unmet = tuple(dict.fromkeys((*(score.unmet_required or ()), *missed)))
        return score.replace(unmet_required=unmet, verdict="fail") if unmet else score

    def _members(self, context: Context) -> Iterator[tuple[Evaluator, Context]]:
        """Yield each member and its context. Those that may ask a model are numbered among equal members."""
        known: Counter[str] = Counter()
        for member in self.evaluators:
            if not may_ask_models(member):
                yield member, context
                continue
            asked = _asked(member)
            yield member, context.replace(twin=(*context.twin, known[asked]))
            known[asked] += 1


def _asked(member: Evaluator) -> str:
    """Return what a member asks, the same for equal members: all but its name and what its verdict counts for."""
    plain = {key: value for key, value in member.to_plain().items() if key not in _OF_THE_VERDICT}
    if isinstance(member, Composite):
        plain["evaluators"] = [_asked(each) for each in member.evaluators]
    return repr(plain)


def _require_unique_names(names: Iterable[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        message = f"the aggregator is given the members' results by name, but {repeated[0]!r} names more than one"
        raise EvaluatorError(f"{message}: give each member of the composite a name of its own", kind="config")
