"""Records are plain data: they survive pickling and a trip through JSON."""

import json
import pickle

import pytest
from pytest_agentv.models.evaluator_configs import (
    CodeJudgeConfig,
    CompositeConfig,
    CostConfig,
    EvaluatorConfig,
    EvaluatorSpec,
    ExpectedCall,
    FieldAccuracyConfig,
    FieldCheck,
    HeuristicConfig,
    LatencyConfig,
    LlmJudgeAggregator,
    LlmJudgeConfig,
    ProxyConfig,
    Rubric,
    TokenUsageConfig,
    ToolTrajectoryConfig,
)

from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.messages import FilePart, InputMessage, Message, ObjectPart, OtherPart, TextPart
from pytest_agentv.models.options import RunOptions

CONFIGS: dict[str, EvaluatorConfig] = {
    "code_judge": CodeJudgeConfig(("python3", "j.py"), "/evals", ProxyConfig(3), {"userKey": [1, None]}),
    "composite": CompositeConfig(
        (EvaluatorSpec("inner", "latency", LatencyConfig(1.5)),), LlmJudgeAggregator("say {{EVALUATOR_RESULTS_JSON}}")
    ),
    "cost": CostConfig(0.01),
    "field_accuracy": FieldAccuracyConfig((FieldCheck("a.b", "date", formats=("DD/MM/YYYY",)),), "all_or_nothing"),
    "heuristic": HeuristicConfig(("yes",), ("no",)),
    "latency": LatencyConfig(100.0),
    "llm_judge": LlmJudgeConfig("{{ candidate_answer }}", (Rubric("r", "is kind", 2.0, required=False),)),
    "token_usage": TokenUsageConfig(max_total=10.0),
    "tool_trajectory": ToolTrajectoryConfig("in_order", None, (ExpectedCall("search", {"q": None}), ExpectedCall("x"))),
    "kind_of_a_plugin": {"anyKey": {"deep": [1.5]}},
}


def case() -> EvalCase:
    return EvalCase(
        eval_id="a",
        dataset="d",
        path="/evals/x.yaml",
        line=3,
        expected_outcome="works",
        question="q",
        messages=(
            InputMessage("user", (TextPart("t"), FilePart("/f", "f", "/r/f", "text", is_guideline=True))),
            InputMessage("tool", (ObjectPart({"k": None}), OtherPart({"type": "image"}))),
        ),
        input_messages=({"role": "user", "content": "t"},),
        expected_messages=(
            {"role": "assistant", "content": None, "tool_calls": [{"tool": "s", "input": None}, {"anyShape": 1}]},
            {"role": "assistant", "content": {"userKey": [1.5]}},
        ),
        evaluators=tuple(EvaluatorSpec(kind, kind, config, weight=2.0, line=4) for kind, config in CONFIGS.items()),
    )


def test_a_case_survives_json() -> None:
    assert EvalCase.from_plain(json.loads(json.dumps(case().to_plain()))) == case()


def test_a_case_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(case())) == case()


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_spec_comes_back_with_settings_of_its_kind(kind: str) -> None:
    spec = EvaluatorSpec("n", kind, CONFIGS[kind])
    assert EvaluatorSpec.from_plain(json.loads(json.dumps(spec.to_plain()))) == spec


def test_null_and_absent_are_told_apart() -> None:
    assert Message("assistant", content=None).to_plain() == {"role": "assistant", "content": None, "tool_calls": []}
    assert Message("assistant").to_plain() == {"role": "assistant", "tool_calls": []}


def test_options_survive_pickling() -> None:
    options = RunOptions(target="t", eval_id=("a",), threshold=0.5)
    assert pickle.loads(pickle.dumps(options)) == options


def test_whole_numbers_are_written_without_a_fraction() -> None:
    assert json.dumps(LatencyConfig(100.0).to_plain()) == '{"threshold": 100}'
