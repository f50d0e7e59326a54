"""The table of evaluators, and running one of them whatever it does."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_agentv.errors import EvaluatorError, ProviderError
from pytest_agentv.evaluators.base import EvaluationContext, EvaluatorServices
from pytest_agentv.evaluators.code_judge import CodeJudge
from pytest_agentv.evaluators.composite import CompositeEvaluator
from pytest_agentv.evaluators.field_accuracy import FieldAccuracyEvaluator
from pytest_agentv.evaluators.heuristic import HeuristicEvaluator
from pytest_agentv.evaluators.limits import CostEvaluator, LatencyEvaluator, TokenUsageEvaluator
from pytest_agentv.evaluators.registry import BUILTIN_EVALUATORS, create_evaluator
from pytest_agentv.evaluators.run import run_evaluator
from pytest_agentv.evaluators.tool_trajectory import ToolTrajectoryEvaluator
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.evaluator_configs import (
    CodeJudgeConfig,
    CompositeConfig,
    CostConfig,
    EvaluatorSpec,
    FieldAccuracyConfig,
    HeuristicConfig,
    LatencyConfig,
    LlmJudgeConfig,
    TokenUsageConfig,
    ToolTrajectoryConfig,
    WeightedAverageAggregator,
)
from pytest_agentv.models.scores import EvaluatorResult, Score
from pytest_agentv.prompts.prompt import Prompt

CONTEXT = EvaluationContext(EvalCase("c", "d", "/e", 1, "o", "q", (), ()), Prompt("q"), "yes")
KNOWN = "code_judge, composite, cost, field_accuracy, heuristic, latency, llm_judge, token_usage, tool_trajectory"


PASSED = Score(1.0)


@dataclass(frozen=True)
class Stub:
    """Returns what it was given, or raises it."""

    outcome: Any = PASSED

    async def evaluate(self, context: EvaluationContext) -> Score:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


class StubJudge:
    name = "judge"

    async def ask(self, system_prompt: str, user_prompt: str, context: EvaluationContext) -> str:
        return '{"score": 1}'


SERVICES = EvaluatorServices(judge=StubJudge(), environment={"A": "1"})


def spec_of(kind: str, config: Any, name: str = "mine", **fields: Any) -> EvaluatorSpec:
    return EvaluatorSpec(name, kind, config, **fields)


def run(outcome: Any, **fields: Any) -> EvaluatorResult:
    spec = spec_of("code_judge", CodeJudgeConfig(("x",), "/"), weight=2.0, **fields)
    return asyncio.run(run_evaluator(spec, Stub(outcome), CONTEXT))


@pytest.mark.parametrize(
    ("kind", "config", "expected"),
    [
        ("code_judge", CodeJudgeConfig(("x",), "/"), CodeJudge(CodeJudgeConfig(("x",), "/"), {"A": "1"})),
        ("cost", CostConfig(1), CostEvaluator(CostConfig(1))),
        ("field_accuracy", FieldAccuracyConfig(()), FieldAccuracyEvaluator(FieldAccuracyConfig(()))),
        ("heuristic", HeuristicConfig(), HeuristicEvaluator(HeuristicConfig())),
        ("latency", LatencyConfig(1), LatencyEvaluator(LatencyConfig(1))),
        ("token_usage", TokenUsageConfig(1), TokenUsageEvaluator(TokenUsageConfig(1))),
        ("tool_trajectory", ToolTrajectoryConfig("exact"), ToolTrajectoryEvaluator(ToolTrajectoryConfig("exact"))),
    ],
)
def test_each_kind_has_its_evaluator(kind, config, expected):
    assert create_evaluator(spec_of(kind, config), SERVICES) == expected


def test_the_model_judge_is_created_with_the_services():
    score = asyncio.run(create_evaluator(spec_of("llm_judge", LlmJudgeConfig()), SERVICES).evaluate(CONTEXT))
    assert score.value == 1


def test_the_built_in_kinds_are_listed():
    assert ", ".join(BUILTIN_EVALUATORS) == KNOWN


def test_members_of_a_composite_are_created_too():
    members = (
        spec_of("heuristic", HeuristicConfig(("yes",)), "keywords"),
        spec_of("acme", {"level": 3}, "own"),
    )
    config = CompositeConfig(members, WeightedAverageAggregator({}))
    inner = spec_of("composite", config, "inner")
    outer = spec_of("composite", CompositeConfig((inner,), WeightedAverageAggregator({})))
    evaluator = create_evaluator(outer, SERVICES, {"acme": lambda spec, services: Stub(Score(0.5))})
    assert isinstance(evaluator, CompositeEvaluator)
    assert asyncio.run(evaluator.evaluate(CONTEXT)).value == 0.75


def test_a_plugins_factory_is_given_the_spec_and_comes_before_ours():
    given = []

    def create(spec: EvaluatorSpec, services: EvaluatorServices) -> Stub:
        given.append((spec, services))
        return Stub()

    spec = spec_of("latency", {"own": 1})
    assert create_evaluator(spec, SERVICES, {"latency": create}) == Stub()
    assert given == [(spec, SERVICES)]


def test_an_unknown_kind_is_an_error_that_names_the_nearest_and_all():
    with pytest.raises(EvaluatorError) as caught:
        create_evaluator(spec_of("llm_juge", {}, line=12), SERVICES, {"acme": lambda spec, services: Stub()})
    assert str(caught.value) == (
        f"evaluator 'mine' (line 12): unknown type 'llm_juge' (did you mean 'llm_judge'?); known types: acme, {KNOWN}"
    )
    assert caught.value.kind == "config"


def test_an_unknown_kind_like_no_other_gets_no_suggestion():
    with pytest.raises(EvaluatorError) as caught:
        create_evaluator(spec_of("zzz", {}), SERVICES)
    assert str(caught.value) == f"evaluator 'mine': unknown type 'zzz'; known types: {KNOWN}"


def test_the_config_of_another_kind_is_an_error():
    with pytest.raises(EvaluatorError) as caught:
        create_evaluator(spec_of("latency", CostConfig(1)), SERVICES)
    assert str(caught.value) == "evaluator 'mine': type 'latency' takes a LatencyConfig as its config, not a CostConfig"
    assert caught.value.kind == "config"


def test_a_score_becomes_a_result():
    member = EvaluatorResult("m", "cost", 1.0, 1.0, "pass")
    score = Score(
        0.7,
        ("h",),
        ("m",),
        "why",
        details={"a": 1},
        request={"script": ["x"]},
        raw_output="out",
        results=(member,),
    )
    assert run(score) == EvaluatorResult(
        name="mine",
        type="code_judge",
        score=0.7,
        weight=2.0,
        verdict="borderline",
        hits=("h",),
        misses=("m",),
        reasoning="why",
        evaluator_provider_request={"script": ["x"]},
        evaluator_results=(member,),
        details={"a": 1},
        raw_output="out",
    )


def test_a_verdict_of_its_own_is_kept_and_the_value_is_clamped():
    assert run(Score(0.9, verdict="fail")).verdict == "fail"
    assert [run(Score(value)).score for value in (1.5, -1, float("nan"))] == [1.0, 0.0, 0.0]


def test_an_evaluator_that_could_not_judge_gives_a_failed_result_with_its_reason():
    result = run(EvaluatorError("it broke", "timeout", "half a reply"))
    assert result == EvaluatorResult(
        name="mine",
        type="code_judge",
        score=0.0,
        weight=2.0,
        verdict="fail",
        misses=("Evaluator 'mine' failed: it broke",),
        reasoning="it broke",
        raw_output="half a reply",
        error="it broke",
        error_kind="timeout",
    )


def test_a_provider_error_keeps_its_kind():
    result = run(ProviderError("no key", "auth"))
    assert (result.error, result.error_kind, result.raw_output) == ("no key", "auth", None)


def test_a_crash_of_an_evaluator_is_named():
    result = run(KeyError("answer"))
    assert result.misses == ("Evaluator 'mine' failed: KeyError: 'answer'",)
    assert (result.error, result.error_kind) == ("KeyError: 'answer'", "crash")


def test_an_evaluator_that_returns_something_else_is_told():
    result = run(0.5)
    assert (result.error, result.error_kind) == ("evaluate() returned float, expected a Score", "crash")


def test_cancelling_a_case_passes_through_its_evaluator():
    class Waiting:
        async def evaluate(self, _context):
            await asyncio.sleep(60)

    async def scenario():
        task = asyncio.create_task(
            run_evaluator(spec_of("code_judge", CodeJudgeConfig(("x",), "/")), Waiting(), CONTEXT)
        )
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_an_evaluator_that_raises_a_cancellation_has_failed():
    result = run(asyncio.CancelledError("mine"))

    assert (result.error, result.error_kind) == ("CancelledError: mine", "crash")
