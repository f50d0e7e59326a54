import asyncio
import json
import re
from typing import Any

import pytest

from pytest_agentv.cases.evaluators import TEMPLATE_VARIABLES
from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.judge import LlmJudge, build_variables
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


def build_user_prompt(config: LlmJudge, context: Context) -> str:
    """Return the prompt without the markers around quoted texts."""
    asked: list[str] = []

    class Judge:
        name = "judge"

        async def ask(self, system_prompt: str, user_prompt: str, *_: object) -> str:
            asked.append(user_prompt)
            return '{"score": 1}'

    asyncio.run(config.evaluate(context.replace(services=Services(judge=Judge()))))
    return unmarked(asked[0])


def unmarked(text: str) -> str:
    return re.sub("</?quoted-[0-9a-f]{16}>", "", text)


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
