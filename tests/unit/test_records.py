"""Records are plain data: they survive pickling and a trip through JSON."""

import json
import pickle

import pytest
from pydantic import ValidationError

from pytest_agentv.evaluators.comparing.expected_calls import ExpectedCall
from pytest_agentv.evaluators.judging.rubrics import Rubric
from pytest_agentv.evaluators.kinds.aggregators import LlmAggregator
from pytest_agentv.evaluators.kinds.code_judge import CodeJudge, Proxy
from pytest_agentv.evaluators.kinds.composite import Composite
from pytest_agentv.evaluators.kinds.field_accuracy import FieldAccuracy, FieldCheck
from pytest_agentv.evaluators.kinds.heuristic import Heuristic
from pytest_agentv.evaluators.kinds.latency import Latency
from pytest_agentv.evaluators.kinds.llm_judge import LlmJudge
from pytest_agentv.evaluators.kinds.tool_trajectory import ToolTrajectory
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.messages import FilePart, InputMessage, Message, ObjectPart, OtherPart, TextPart
from pytest_agentv.models.options import RunOptions
from pytest_agentv.models.traces import ExecutionMetrics

EVALUATORS = (
    CodeJudge(name="c", script=("python3", "j.py"), cwd="/evals", target=Proxy(max_calls=3), userKey=[1, None]),
    Composite(
        evaluators=(Latency(name="inner", threshold=1.5),),
        aggregator=LlmAggregator(prompt="say {{EVALUATOR_RESULTS_JSON}}"),
    ),
    FieldAccuracy(
        fields=(FieldCheck(path="a.b", match="date", formats=("DD/MM/YYYY",)),), aggregation="all_or_nothing"
    ),
    Heuristic(weight=2, hits=("yes",), misses=("no",)),
    LlmJudge(rubrics=(Rubric(id="r", description="is kind", weight=2.0, required=False),)),
    ToolTrajectory(mode="in_order", expected=(ExpectedCall(tool="search", args={"q": None}), ExpectedCall(tool="x"))),
)


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
        evaluators=EVALUATORS,
    )


def test_a_case_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(case())) == case()


def test_the_plain_form_of_a_case_tells_what_was_written_of_its_evaluators() -> None:
    plain = json.loads(json.dumps(case().to_plain()))
    assert plain["evaluators"][3] == {"kind": "heuristic", "weight": 2, "hits": ["yes"], "misses": ["no"]}
    assert plain["evaluators"][1] == {
        "kind": "composite",
        "evaluators": [{"kind": "latency", "name": "inner", "threshold": 1.5}],
        "aggregator": {"kind": "llm_judge", "prompt": "say {{EVALUATOR_RESULTS_JSON}}"},
    }


def test_an_evaluator_is_changed_by_making_another_one() -> None:
    before = EVALUATORS[3]
    assert before.replace(hits=("no",)) == Heuristic(weight=2, hits=("no",), misses=("no",))
    with pytest.raises(ValidationError, match="0"):
        before.replace(weight=-1)


def test_null_and_absent_are_told_apart() -> None:
    assert Message("assistant", content=None).to_plain() == {"role": "assistant", "content": None, "tool_calls": []}
    assert Message("assistant").to_plain() == {"role": "assistant", "tool_calls": []}


def test_options_survive_pickling() -> None:
    options = RunOptions(target="t", eval_id=("a",), threshold=0.5)
    assert pickle.loads(pickle.dumps(options)) == options


def test_whole_numbers_are_written_without_a_fraction() -> None:
    assert json.dumps(ExecutionMetrics(duration_ms=100.0).to_plain()) == '{"duration_ms": 100}'
