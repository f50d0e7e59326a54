"""The settings of each built-in kind of evaluator, checked and with their files resolved."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self, TypeAlias

from pytest_agentv.models.base import ABSENT, Json, JsonObject, Record

DEFAULT_PROXY_CALLS: Final = 50


@dataclass(frozen=True, slots=True)
class ProxyConfig(Record):
    """Lets a code judge call targets of its own (agentv-formats 7)."""

    max_calls: int = DEFAULT_PROXY_CALLS


@dataclass(frozen=True, slots=True)
class CodeJudgeConfig(Record):
    """A script that is given the case as JSON and prints its judgement."""

    script: tuple[str, ...]
    """The argument vector; a script written as a string became `sh -lc STRING`."""
    cwd: str
    """Absolute; the eval file's folder unless the case says otherwise."""
    target: ProxyConfig | None = None
    config: JsonObject | None = None
    """Every key of the evaluator that is not ours, as written."""


@dataclass(frozen=True, slots=True)
class ExpectedCall(Record):
    """One expected tool call; `args` absent or `any` accepts every input."""

    tool: str
    args: Json = ABSENT
    input: Json = ABSENT
    """Another word for `args`."""
    output: Json = ABSENT
    """What the call's output holds, at every depth."""
    max_duration_ms: float | None = None


@dataclass(frozen=True, slots=True)
class ToolTrajectoryConfig(Record):
    """Which tools must have been called, and in what order."""

    mode: Literal["any_order", "in_order", "exact"]
    minimums: Mapping[str, float] | None = None
    expected: tuple[ExpectedCall, ...] | None = None


@dataclass(frozen=True, slots=True)
class FieldCheck(Record):
    """One field of a JSON answer that is compared with the expected data."""

    path: str
    match: Literal["exact", "numeric_tolerance", "date"]
    required: bool = True
    weight: float = 1.0
    tolerance: float = 0.0
    relative: bool = False
    formats: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class FieldAccuracyConfig(Record):
    """Fields of a JSON answer, compared one by one."""

    fields: tuple[FieldCheck, ...]
    aggregation: Literal["weighted_average", "all_or_nothing"] = "weighted_average"


@dataclass(frozen=True, slots=True)
class LatencyConfig(Record):
    """The longest an answer may take."""

    threshold: float
    """Milliseconds."""


@dataclass(frozen=True, slots=True)
class CostConfig(Record):
    """The most an answer may cost."""

    budget: float
    """US dollars."""


@dataclass(frozen=True, slots=True)
class TokenUsageConfig(Record):
    """The most tokens an answer may use; at least one limit is set."""

    max_total: float | None = None
    max_input: float | None = None
    max_output: float | None = None


@dataclass(frozen=True, slots=True)
class HeuristicConfig(Record):
    """Keywords that an answer must and must not hold."""

    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rubric(Record):
    """One statement a judge holds an answer against."""

    id: str
    description: str
    weight: float = 1.0
    required: bool = True


@dataclass(frozen=True, slots=True)
class LlmJudgeConfig(Record):
    """A model that judges; with rubrics it checks them one by one."""

    prompt: str | None = None
    """The template's text, read from its file where `prompt` named one."""
    rubrics: tuple[Rubric, ...] = ()
    include_trace: bool = False


@dataclass(frozen=True, slots=True)
class WeightedAverageAggregator(Record):
    """The weighted mean of the members; a member that is not named weighs 1."""

    weights: Mapping[str, float]
    type: Literal["weighted_average"] = "weighted_average"


@dataclass(frozen=True, slots=True)
class CodeJudgeAggregator(Record):
    """A shell command that is given the members' results and prints a judgement."""

    path: str
    cwd: str
    type: Literal["code_judge"] = "code_judge"


@dataclass(frozen=True, slots=True)
class LlmJudgeAggregator(Record):
    """A model that is shown the members' results and judges."""

    prompt: str | None = None
    type: Literal["llm_judge"] = "llm_judge"


Aggregator: TypeAlias = WeightedAverageAggregator | CodeJudgeAggregator | LlmJudgeAggregator


@dataclass(frozen=True, slots=True)
class EvaluatorSpec(Record):
    """One configured evaluator of a case."""

    name: str
    type: str
    """Canonical: `code_judge`, `llm_judge`, `composite`, … or a kind that a plugin adds."""
    config: "EvaluatorConfig"
    weight: float = 1.0
    line: int | None = None

    @classmethod
    def from_plain(cls, data: JsonObject) -> Self:
        """Build the spec from what `to_plain` gave: the type says of which class the settings are."""
        config_class = CONFIG_CLASSES.get(data["type"])
        config = config_class.from_plain(data["config"]) if config_class else data["config"]
        return cls(**{**data, "config": config})

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> object:
        from pydantic_core import core_schema  # noqa: PLC0415 - only who reads records back pays for pydantic

        return core_schema.no_info_plain_validator_function(cls.from_plain)


@dataclass(frozen=True, slots=True)
class CompositeConfig(Record):
    """Several evaluators and how their scores become one."""

    evaluators: tuple[EvaluatorSpec, ...]
    aggregator: Aggregator


EvaluatorConfig: TypeAlias = (
    CodeJudgeConfig
    | ToolTrajectoryConfig
    | FieldAccuracyConfig
    | LatencyConfig
    | CostConfig
    | TokenUsageConfig
    | HeuristicConfig
    | LlmJudgeConfig
    | CompositeConfig
    | JsonObject
)
"""A kind added by a plugin gets the keys of its evaluator as written."""

CONFIG_CLASSES: Final[Mapping[str, type[Record]]] = {
    "code_judge": CodeJudgeConfig,
    "composite": CompositeConfig,
    "cost": CostConfig,
    "field_accuracy": FieldAccuracyConfig,
    "heuristic": HeuristicConfig,
    "latency": LatencyConfig,
    "llm_judge": LlmJudgeConfig,
    "token_usage": TokenUsageConfig,
    "tool_trajectory": ToolTrajectoryConfig,
}
"""The settings of the built-in types."""
