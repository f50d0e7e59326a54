"""Lists of evaluators, checked and with their files read (agentv-formats 6).

Imports pydantic: import this lazily.
"""

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final

from pydantic import AliasChoices, Field

from pytest_agentv.loading.edge_models import Amount, EdgeModel, FilledText, check
from pytest_agentv.loading.evaluator_models import (
    CostModel,
    EvaluatorModel,
    FieldAccuracyModel,
    HeuristicModel,
    LatencyModel,
    TokenUsageModel,
    ToolTrajectoryModel,
)
from pytest_agentv.loading.judge_models import (
    NO_MODEL,
    CaseRubricsModel,
    CodeJudgeModel,
    LlmJudgeModel,
    RubricJudgeModel,
    create_rubrics,
    find_cwd,
)
from pytest_agentv.loading.judge_templates import check_aggregator_template, load_template
from pytest_agentv.loading.keys import EVALUATOR_LIST_KEYS
from pytest_agentv.loading.places import Place
from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.loading.references import Scope
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.evaluator_configs import (
    Aggregator,
    CodeJudgeAggregator,
    CompositeConfig,
    EvaluatorSpec,
    LlmJudgeAggregator,
    LlmJudgeConfig,
    WeightedAverageAggregator,
)

_CANONICAL_TYPES: Final = {"code": "code_judge", "rubric": "llm_judge"}


def load_evaluators(scope: Scope) -> tuple[EvaluatorSpec, ...]:
    """Check a list of evaluators and read their files.

    What cannot be used is left out and noted as an error at its place; unknown keys are warnings.
    Source: agentv-formats 6.1, 6.2; evaluation-2025-11, "User defines multiple evaluators in YAML".
    """
    if not isinstance(scope.value, list):
        hint = "put `- ` before its first key" if isinstance(scope.value, dict) else None
        scope.place.expected("a list of evaluators", scope.value, hint)
        return ()
    specs = (_load_evaluator(scope.at(item, index)) for index, item in enumerate(scope.value))
    return tuple(spec for spec in specs if spec is not None)


def load_case_rubrics(value: Json, place: Place) -> tuple[EvaluatorSpec, ...]:
    """Return the judge that the `rubrics` of a case stand for; faults are noted below the case's place."""
    checked = check(CaseRubricsModel, {"rubrics": value}, place)
    if checked is None or not checked.rubrics:
        return ()
    config = LlmJudgeConfig(rubrics=create_rubrics(checked.rubrics))
    return (EvaluatorSpec("rubric", "llm_judge", config, line=place.nearby_line()),)


def _load_evaluator(scope: Scope) -> EvaluatorSpec | None:
    if not isinstance(scope.value, dict):
        scope.place.expected("an evaluator: a mapping with name and type", scope.value)
        return None
    model = _find_model(scope)
    checked = check(model, scope.value, scope.place) if model else None
    if checked is None:
        return None
    return EvaluatorSpec(
        name=checked.name,
        type=_CANONICAL_TYPES.get(checked.type, checked.type),
        config=checked.config(scope),
        weight=checked.weight,
        line=scope.place.nearby_line(),
    )


def _find_model(scope: Scope) -> type[EvaluatorModel] | None:
    kind = scope.value.get("type")
    if isinstance(kind, str) and kind in MODELS:
        return MODELS[kind]
    if isinstance(kind, str) and kind in scope.plugin_types:
        return PluginModel
    _note_unknown_type(kind, {*MODELS, *scope.plugin_types}, scope.place)
    return None


class PluginModel(EvaluatorModel):
    """An evaluator of a kind that a plugin adds: its settings are its keys as written."""

    is_open: ClassVar[bool] = True

    def config(self, scope: Scope) -> JsonObject:
        settings: JsonObject = scope.value
        return settings


class CompositeModel(EvaluatorModel):
    evaluators: list[Any] = Field(validation_alias=AliasChoices(*EVALUATOR_LIST_KEYS), min_length=1)
    aggregator: dict[str, Any]

    def config(self, scope: Scope) -> CompositeConfig:
        members = load_evaluators(scope.at(self.evaluators, "evaluators"))
        aggregator = _load_aggregator(scope.at(self.aggregator, "aggregator"))
        if isinstance(aggregator, WeightedAverageAggregator):
            _note_unknown_members(aggregator, members, scope.place.at("aggregator", "weights"))
        return CompositeConfig(members, aggregator)


class AggregatorModel(EdgeModel):
    type: str

    @abstractmethod
    def aggregator(self, scope: Scope) -> Aggregator: ...


class WeightedAverageModel(AggregatorModel):
    weights: dict[str, Amount] = Field(default_factory=dict)

    def aggregator(self, scope: Scope) -> WeightedAverageAggregator:  # noqa: ARG002 - it refers to nothing
        return WeightedAverageAggregator(self.weights)


class CodeAggregatorModel(AggregatorModel):
    path: FilledText
    cwd: FilledText | None = None

    def aggregator(self, scope: Scope) -> CodeJudgeAggregator:
        return CodeJudgeAggregator(self.path, str(find_cwd(self.cwd, scope)))


class LlmAggregatorModel(AggregatorModel):
    hints: ClassVar[Mapping[str, str]] = NO_MODEL

    prompt: FilledText | None = None
    prompt_path: FilledText | None = Field(None, validation_alias=AliasChoices("prompt_path", "promptPath"))

    def aggregator(self, scope: Scope) -> LlmJudgeAggregator:
        template = load_template(self.prompt, self.prompt_path, scope.place, scope.references)
        if template is not None:
            check_aggregator_template(template, scope.place)
        return LlmJudgeAggregator(template.text if template else None)


def _load_aggregator(scope: Scope) -> Aggregator:
    """Check an aggregator; where that fails, which is noted, a mean stands in for it."""
    kind = scope.value.get("type")
    model = AGGREGATORS.get(kind) if isinstance(kind, str) else None
    if model is None:
        _note_unknown_type(kind, AGGREGATORS, scope.place)
    checked = check(model, scope.value, scope.place) if model else None
    return checked.aggregator(scope) if checked else WeightedAverageAggregator({})


def _note_unknown_members(
    aggregator: WeightedAverageAggregator, members: tuple[EvaluatorSpec, ...], place: Place
) -> None:
    names = [member.name for member in members]
    for name in aggregator.weights:
        if name not in names:
            hint = did_you_mean(name, names) or f"members: {', '.join(names)}"
            place.at(name).unread("a weight for a member that there is none of", hint)


def _note_unknown_type(kind: Json, types: Collection[str], place: Place) -> None:
    known = ", ".join(sorted(types))
    if kind is None:
        place.at("type").error(f"is missing: expected one of {known}")
    else:
        hint = did_you_mean(kind, types) if isinstance(kind, str) else None
        place.at("type").expected(f"one of {known}", kind, hint)


MODELS: Final[dict[str, type[EvaluatorModel]]] = {
    "code": CodeJudgeModel,
    "code_judge": CodeJudgeModel,
    "composite": CompositeModel,
    "cost": CostModel,
    "field_accuracy": FieldAccuracyModel,
    "heuristic": HeuristicModel,
    "latency": LatencyModel,
    "llm_judge": LlmJudgeModel,
    "rubric": RubricJudgeModel,
    "token_usage": TokenUsageModel,
    "tool_trajectory": ToolTrajectoryModel,
}
AGGREGATORS: Final[dict[str, type[AggregatorModel]]] = {
    "code_judge": CodeAggregatorModel,
    "llm_judge": LlmAggregatorModel,
    "weighted_average": WeightedAverageModel,
}
