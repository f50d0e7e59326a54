"""The table of the kinds of evaluators, and how a spec becomes a live evaluator."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Evaluator, EvaluatorFactory, EvaluatorServices
from pytest_agentv.evaluators.code_judge import create_code_judge
from pytest_agentv.evaluators.composite import CompositeEvaluator
from pytest_agentv.evaluators.field_accuracy import FieldAccuracyEvaluator
from pytest_agentv.evaluators.heuristic import HeuristicEvaluator
from pytest_agentv.evaluators.limits import CostEvaluator, LatencyEvaluator, TokenUsageEvaluator
from pytest_agentv.evaluators.llm_judge import create_llm_judge
from pytest_agentv.evaluators.tool_trajectory import ToolTrajectoryEvaluator
from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.models.evaluator_configs import (
    CodeJudgeConfig,
    CompositeConfig,
    CostConfig,
    EvaluatorSpec,
    FieldAccuracyConfig,
    HeuristicConfig,
    LatencyConfig,
    TokenUsageConfig,
    ToolTrajectoryConfig,
)

C = TypeVar("C")

_FACTORIES: Final[Mapping[str, EvaluatorFactory]] = MappingProxyType(
    {
        "code_judge": lambda spec, services: create_code_judge(spec.name, _config(spec, CodeJudgeConfig), services),
        "cost": lambda spec, _: CostEvaluator(_config(spec, CostConfig)),
        "field_accuracy": lambda spec, _: FieldAccuracyEvaluator(_config(spec, FieldAccuracyConfig)),
        "heuristic": lambda spec, _: HeuristicEvaluator(_config(spec, HeuristicConfig)),
        "latency": lambda spec, _: LatencyEvaluator(_config(spec, LatencyConfig)),
        "llm_judge": create_llm_judge,
        "token_usage": lambda spec, _: TokenUsageEvaluator(_config(spec, TokenUsageConfig)),
        "tool_trajectory": lambda spec, _: ToolTrajectoryEvaluator(_config(spec, ToolTrajectoryConfig)),
    }
)

BUILTIN_EVALUATORS: Final = tuple(sorted([*_FACTORIES, "composite"]))
"""The canonical names of the kinds that come with this package."""

_NO_EXTRA: Final[Mapping[str, EvaluatorFactory]] = MappingProxyType({})


def create_evaluator(
    spec: EvaluatorSpec, services: EvaluatorServices, extra: Mapping[str, EvaluatorFactory] = _NO_EXTRA
) -> Evaluator:
    """Create the evaluator of a spec, and those of its members.

    Args:
        spec: What the case configures.
        services: What evaluators need beside the case.
        extra: Kinds that plugins add; a kind of the same name replaces ours.

    Raises:
        EvaluatorError: The kind is unknown, or its settings cannot be used (kind `config`).
    """
    factory = extra.get(spec.type) or _FACTORIES.get(spec.type)
    if factory is not None:
        return factory(spec, services)
    if spec.type == "composite":
        return _create_composite(spec, services, extra)
    raise EvaluatorError(_unknown_kind(spec, {*BUILTIN_EVALUATORS, *extra}), kind="config")


def _create_composite(
    spec: EvaluatorSpec, services: EvaluatorServices, extra: Mapping[str, EvaluatorFactory]
) -> Evaluator:
    config = _config(spec, CompositeConfig)
    children = [(member, create_evaluator(member, services, extra)) for member in config.evaluators]
    return CompositeEvaluator(config, children, services)


def _config(spec: EvaluatorSpec, kind: type[C]) -> C:
    if not isinstance(spec.config, kind):
        given = type(spec.config).__name__
        raise EvaluatorError(
            f"{_locate(spec)}: type {spec.type!r} takes a {kind.__name__} as its config, not a {given}", kind="config"
        )
    return spec.config


def _unknown_kind(spec: EvaluatorSpec, known: set[str]) -> str:
    hint = did_you_mean(spec.type, sorted(known))
    suggestion = f" ({hint})" if hint else ""
    return f"{_locate(spec)}: unknown type {spec.type!r}{suggestion}; known types: {', '.join(sorted(known))}"


def _locate(spec: EvaluatorSpec) -> str:
    line = f" (line {spec.line})" if spec.line is not None else ""
    return f"evaluator {spec.name!r}{line}"
