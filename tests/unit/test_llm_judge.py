import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.cases.references import TEMPLATE_VARIABLES
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.judge import LlmJudge, Rubric, build_question, build_variables, default_judge
from pytest_agentv.evaluators.judge_reply import NO_JUDGEMENT
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import (
    FilePart,
    InputMessage,
    Message,
    ObjectPart,
    OtherPart,
    TextPart,
    ToolCall,
    TraceEvent,
    TraceSummary,
)
from pytest_agentv.model.results import Score


def build_user_prompt(config: LlmJudge, context: Context) -> str:
    """Return the prompt without the markers around quoted texts."""
    return unmarked(build_question(config, context).user_prompt)


def unmarked(text: str) -> str:
    return re.sub("</?quoted-[0-9a-f]{16}>", "", text)


@dataclass
class ScriptedJudge:
    """Replies one text and notes what it was asked."""

    reply: str
    name: str = "grader"
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def ask(self, system_prompt: str, user_prompt: str, context: Context, schema: object = None) -> str:
        self.asked.append((system_prompt, user_prompt))
        return self.reply


class UnreachableJudge:
    name = "grader"

    async def ask(self, system_prompt: str, user_prompt: str, context: Context, schema: object = None) -> str:
        raise EvaluatorError("judge 'grader': 401", kind="auth")


def make_case(**changes: Any) -> EvalCase:
    case = EvalCase(
        eval_id="c1",
        dataset="d",
        path="/evals/d.eval.yaml",
        line=3,
        expected_outcome=" Names Paris \n",
        question="raw question",
        messages=(),
        input_messages=(),
        reference_answer="\ufeffParis ",
    )
    return case.replace(**changes)


def make_context(case: EvalCase | None = None, **changes: Any) -> Context:
    context = Context(case=case or make_case(), prompt=Prompt(question=" Capital? "), candidate_answer=" It is Paris. ")
    return context.replace(**changes)


def evaluate(judge: Any, context: Context | None = None, **config: Any) -> Score:
    given = (context or make_context()).replace(services=Services(judge=judge))
    return asyncio.run(LlmJudge(name="quality", **config).evaluate(given))


SYSTEM = build_question(LlmJudge(), make_context()).system_prompt


@pytest.mark.scenario("Enforce JSON prompt contract")
def test_the_user_prompt_shows_the_case_in_named_sections() -> None:
    prompt = build_user_prompt(LlmJudge(), make_context())
    _, sections = prompt.split("\n\n", 1)
    assert sections == (
        "[[ ## expected_outcome ## ]]\nNames Paris\n\n"
        "[[ ## question ## ]]\nCapital?\n\n"
        "[[ ## reference_answer ## ]]\nParis\n\n"
        "[[ ## candidate_answer ## ]]\nIt is Paris."
    )


@pytest.mark.scenario("Enforce JSON prompt contract")
def test_the_system_prompt_names_the_inputs_and_demands_one_json_object() -> None:
    for name in ("expected_outcome", "question", "reference_answer", "candidate_answer"):
        assert f"- {name}: " in SYSTEM
    assert "exactly one JSON object" in SYSTEM
    sample = re.search(r"^\{.*\}$", SYSTEM, re.MULTILINE)
    assert sample is not None
    assert list(json.loads(sample[0])) == ["score", "hits", "misses", "reasoning"]
    assert "from 0.0 (worthless) to 1.0" in SYSTEM
    assert SYSTEM.count("at most four") == 2


@pytest.mark.scenario("User provides custom prompt for LLM judge evaluator")
def test_a_prompt_of_ones_own_replaces_the_user_prompt_and_leaves_the_contract() -> None:
    judge = ScriptedJudge('{"score": 1}')
    evaluate(judge, prompt="Is {{ candidate_answer }} right? {{unknown}} {{question}}")
    ((system_prompt, user_prompt),) = judge.asked
    assert re.fullmatch(r"Is <(.*)>It is Paris\.</\1> right\? {{unknown}} Capital\?", user_prompt)
    assert unmarked(system_prompt) == unmarked(SYSTEM)


def test_what_a_variable_holds_is_not_taken_for_a_placeholder() -> None:
    context = make_context(candidate_answer="{{expected_outcome}}")
    assert build_user_prompt(LlmJudge(prompt="[{{candidate_answer}}]"), context) == "[{{expected_outcome}}]"


def test_a_blank_prompt_question_falls_back_to_the_raw_one() -> None:
    assert build_variables(make_context(prompt=Prompt(question=" \n")))["question"] == "raw question"


def test_input_messages_are_the_segments_of_all_messages_without_guidelines() -> None:
    attached = FilePart(value="/a.py", path="a.py", resolved_path="/r/a.py", text="print(1)\n")
    guideline = attached.replace(is_guideline=True)
    messages = (
        InputMessage("system", (TextPart("Be brief"), guideline)),
        InputMessage("user", (attached, ObjectPart({"k": 1}), OtherPart({"type": "image", "value": "img"}))),
    )
    variables = build_variables(make_context(make_case(messages=messages)))
    assert json.loads(variables["input_messages"]) == [
        {"type": "text", "value": "Be brief"},
        {"type": "file", "path": "a.py", "text": "print(1)\n", "resolvedPath": "/r/a.py"},
        {"type": "object", "value": {"k": 1}},
        {"type": "image", "value": "img"},
    ]


def test_output_and_expected_messages_have_agentv_keys_and_untouched_user_data() -> None:
    call = ToolCall("lookup_order", input={"order_id": 7}, output=None, duration_ms=12.0)
    messages = (Message("assistant", tool_calls=(call,)), Message("assistant", content="Päris", name="n"))
    context = make_context(
        make_case(expected_messages=({"role": "assistant", "content": "Päris", "name": "n"},)), output_messages=messages
    )
    variables = build_variables(context)
    assert json.loads(variables["output_messages"]) == [
        {
            "role": "assistant",
            "toolCalls": [{"tool": "lookup_order", "input": {"order_id": 7}, "output": None, "durationMs": 12}],
        },
        {"role": "assistant", "content": "Päris", "name": "n"},
    ]
    assert variables["expected_messages"] == (
        '[\n  {\n    "role": "assistant",\n    "content": "Päris",\n    "name": "n"\n  }\n]'
    )


def test_without_messages_their_variables_are_empty_lists() -> None:
    variables = build_variables(make_context())
    assert [variables[f"{name}_messages"] for name in ("input", "expected", "output")] == ["[]", "[]", "[]"]


def test_the_reader_of_files_knows_every_variable_that_is_filled() -> None:
    assert set(TEMPLATE_VARIABLES) == set(build_variables(make_context()))


@pytest.mark.scenario("LLM judge may consume trace (opt-in)")
def test_the_trace_is_shown_when_it_is_asked_for_and_there() -> None:
    context = make_context(
        trace=(TraceEvent("tool_call", name="search", input={"q": 1}),),
        trace_summary=TraceSummary(1, ("search",), {"search": 1}, 0),
    )
    config = LlmJudge(prompt="{{candidate_answer}}", include_trace=True)
    answer, summary, trace = build_user_prompt(config, context).split("\n\n")
    assert answer == "It is Paris."
    assert summary.startswith('[[ ## trace_summary ## ]]\n{\n  "event_count": 1,')
    assert trace.startswith('[[ ## trace ## ]]\n[\n  {\n    "type": "tool_call",')
    assert build_user_prompt(config.model_copy(update={"include_trace": False}), context) == "It is Paris."


@pytest.mark.scenario("LLM judge may consume trace (opt-in)")
def test_a_judge_that_wants_the_trace_works_without_one() -> None:
    config = LlmJudge(prompt="{{candidate_answer}}", include_trace=True)
    assert build_user_prompt(config, make_context()) == "It is Paris."


@pytest.mark.scenario("Record evaluator request metadata")
def test_the_score_keeps_what_was_asked_of_whom() -> None:
    judge = ScriptedJudge('{"score": 0.7, "hits": ["h1"], "misses": ["m1"], "reasoning": "why"}')
    score = evaluate(judge, prompt="P")
    request = {"user_prompt": "P", "system_prompt": SYSTEM, "target": "grader"}
    assert score == Score(0.7, ("h1",), ("m1",), "why", request=request)
    assert list(score.request or ()) == ["user_prompt", "system_prompt", "target"]


@pytest.mark.scenario("Record evaluator request metadata")
@pytest.mark.scenario("LLM judge evaluation failure")
def test_an_unreadable_reply_is_a_score_of_0_and_an_error_after_three_calls(
    caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    judge = ScriptedJudge("bad")
    score = evaluate(judge)
    assert (score.value, score.hits, score.misses, score.raw_output) == (0.0, (), (), "bad")
    assert score.request is not None
    assert score.error == f"the judge 'grader' gave no judgement in 3 replies: {NO_JUDGEMENT}"
    assert (len(judge.asked), score.judge_retries) == (3, 2)
    assert not caplog.records
    assert not recwarn.list


def test_a_judge_that_cannot_be_reached_is_an_error_and_no_score() -> None:
    with pytest.raises(EvaluatorError, match=r"^judge 'grader': 401$") as caught:
        evaluate(UnreachableJudge())
    assert caught.value.kind == "auth"


def test_without_a_judge_the_evaluator_cannot_be_prepared() -> None:
    with pytest.raises(EvaluatorError) as caught:
        default_judge().prepare(Services())
    assert caught.value.kind == "config"
    assert str(caught.value) == (
        "evaluator 'llm_judge' has no judge to ask: write `judge_target: <name>` in the target's entry of "
        "targets.yaml, where <name> is a target with a model"
    )


def test_the_default_judge_is_free_form_and_rubrics_are_checked_one_by_one() -> None:
    judge = default_judge()
    assert (judge.label, judge.kind, judge.weight, judge.asks_judge) == ("llm_judge", "llm_judge", 1.0, True)
    asked = ScriptedJudge("")
    evaluate(asked, rubrics=(Rubric(id="a", description="A"),))
    assert "[[ ## rubrics ## ]]\n- [a] (REQUIRED): A" in asked.asked[0][1]
