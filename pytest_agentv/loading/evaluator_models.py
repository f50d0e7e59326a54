"""The shapes of evaluators that need nothing but their own keys (agentv-formats 6.7 to 6.9).

Imports pydantic: import this lazily.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from pytest_agentv.loading.edge_models import Amount, EdgeModel, FilledText
from pytest_agentv.loading.problems import describe_value
from pytest_agentv.loading.references import Scope
from pytest_agentv.models.base import ABSENT, Json
from pytest_agentv.models.evaluator_configs import (
    CostConfig,
    EvaluatorConfig,
    ExpectedCall,
    FieldAccuracyConfig,
    FieldCheck,
    HeuristicConfig,
    LatencyConfig,
    TokenUsageConfig,
    ToolTrajectoryConfig,
)


class EvaluatorModel(EdgeModel):
    """What every evaluator has."""

    name: FilledText
    type: str
    weight: Amount = 1.0

    @abstractmethod
    def config(self, scope: Scope) -> EvaluatorConfig:
        """Return the settings, files read; what could not be read is noted as an error."""


class PlainModel(EvaluatorModel):
    """An evaluator whose keys say everything."""

    def config(self, scope: Scope) -> EvaluatorConfig:  # noqa: ARG002 - nothing has to be looked up
        return self.record()

    @abstractmethod
    def record(self) -> EvaluatorConfig: ...


class LatencyModel(PlainModel):
    threshold: Amount

    def record(self) -> LatencyConfig:
        return LatencyConfig(self.threshold)


class CostModel(PlainModel):
    budget: Amount

    def record(self) -> CostConfig:
        return CostConfig(self.budget)


class TokenUsageModel(PlainModel):
    max_total: Amount | None = Field(None, validation_alias=AliasChoices("max_total", "maxTotal"))
    max_input: Amount | None = Field(None, validation_alias=AliasChoices("max_input", "maxInput"))
    max_output: Amount | None = Field(None, validation_alias=AliasChoices("max_output", "maxOutput"))

    @model_validator(mode="after")
    def _needs_a_limit(self) -> Self:
        if self.max_total is None and self.max_input is None and self.max_output is None:
            raise ValueError("token_usage needs a limit: max_total, max_input or max_output")
        return self

    def record(self) -> TokenUsageConfig:
        return TokenUsageConfig(self.max_total, self.max_input, self.max_output)


def _one_or_more(value: Json) -> Json:
    return [value] if isinstance(value, str) else value


Keywords: TypeAlias = Annotated[list[FilledText], BeforeValidator(_one_or_more)]


class HeuristicModel(PlainModel):
    hits: Keywords = Field(default_factory=list)
    misses: Keywords = Field(default_factory=list)

    @model_validator(mode="after")
    def _needs_keywords(self) -> Self:
        if not self.hits and not self.misses:
            raise ValueError("heuristic needs keywords, or every answer would pass: hits, misses or both")
        return self

    def record(self) -> HeuristicConfig:
        return HeuristicConfig(tuple(self.hits), tuple(self.misses))


def _arguments(value: Json) -> Json:
    if value is None:
        return ABSENT
    if value != "any" and not isinstance(value, dict):
        raise ValueError(f"expected a mapping of arguments or the word any, got {describe_value(value)}")
    return value


class ExpectedCallModel(EdgeModel):
    tool: FilledText
    args: Annotated[Any, BeforeValidator(_arguments)] = ABSENT
    input: Annotated[Any, BeforeValidator(_arguments)] = ABSENT
    """Another word for `args`. AgentV reads only `args`; we check what the author wrote."""
    output: Any = ABSENT
    max_duration_ms: Amount | None = Field(None, validation_alias=AliasChoices("max_duration_ms", "maxDurationMs"))

    def record(self) -> ExpectedCall:
        return ExpectedCall(self.tool, self.args, self.input, self.output, self.max_duration_ms)


class ToolTrajectoryModel(PlainModel):
    mode: Literal["any_order", "in_order", "exact"]
    minimums: dict[str, Amount] | None = None
    expected: list[ExpectedCallModel] | None = None

    @model_validator(mode="after")
    def _needs_what_its_mode_reads(self) -> Self:
        needed = "minimums" if self.mode == "any_order" else "expected"
        if getattr(self, needed) is None:
            raise ValueError(f"mode {self.mode} needs the key '{needed}'")
        return self

    def unread_keys(self) -> Iterator[tuple[str, str]]:
        needed, other = ("minimums", "expected") if self.mode == "any_order" else ("expected", "minimums")
        if getattr(self, other) is not None:
            yield other, f"mode {self.mode} reads '{needed}' only"

    def record(self) -> ToolTrajectoryConfig:
        calls = None if self.expected is None else tuple(call.record() for call in self.expected)
        return ToolTrajectoryConfig(self.mode, self.minimums, calls)


class FieldCheckModel(EdgeModel):
    path: FilledText
    match: Literal["exact", "numeric_tolerance", "date"]
    required: bool = True
    weight: Amount = 1.0
    tolerance: Amount = 0.0
    relative: bool = False
    formats: list[FilledText] | None = None

    def unread_keys(self) -> Iterator[tuple[str, str]]:
        readers = {"tolerance": "numeric_tolerance", "relative": "numeric_tolerance", "formats": "date"}
        for key, match in readers.items():
            if key in self.model_fields_set and self.match != match:
                yield key, f"it belongs to match: {match}"

    def field_check(self) -> FieldCheck:
        formats = None if self.formats is None else tuple(self.formats)
        return FieldCheck(self.path, self.match, self.required, self.weight, self.tolerance, self.relative, formats)


class FieldAccuracyModel(PlainModel):
    fields: Annotated[list[FieldCheckModel], Field(min_length=1)]
    aggregation: Literal["weighted_average", "all_or_nothing"] = "weighted_average"

    def record(self) -> FieldAccuracyConfig:
        return FieldAccuracyConfig(tuple(field.field_check() for field in self.fields), self.aggregation)
