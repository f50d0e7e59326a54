import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.evaluators.answer_data import JudgeQuestion, read_reply
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.judge import Rubric, judge_rubrics
from pytest_agentv.evaluators.judge import read_checks as read_checks_of
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import TraceSummary
from pytest_agentv.model.results import NOTHING_COUNTS, Score

RUBRICS = (
    Rubric(id="a", description="A d", weight=2.0),
    Rubric(id="b", description="B d", required=False),
    Rubric(id="c", description="C d", weight=1.5),
)


CHECKED = '{"checks": [{"id": "a", "satisfied": true}]}'


class Judge:
    name = "judge"

    def __init__(self):
        self.asked = []

    async def ask(self, system_prompt, user_prompt, context, schema=None):
        self.asked.append((system_prompt, user_prompt))
        return CHECKED


def build_question(context: Context, *, include_trace: bool = False) -> tuple[str, str]:
    """Return the system prompt and the prompt of the user."""
    judge = Judge()
    asyncio.run(judge_rubrics(judge, RUBRICS, context, include_trace=include_trace))
    return judge.asked[0]


def build_user_prompt(context: Context, *, include_trace: bool = False) -> str:
    """Return the prompt without the markers around quoted texts."""
    return re.sub("</?quoted-[0-9a-f]{16}>", "", build_question(context, include_trace=include_trace)[1])


def read_checks(reply: str, rubrics: Sequence[Rubric]) -> Score:
    return read_reply(lambda *given: read_checks_of(*given, rubrics), reply, JudgeQuestion("system", "user"))


def make_context(reference_answer: str = "", **changes: Any) -> Context:
    case = EvalCase(
        eval_id="c1",
        dataset="d",
        path="/evals/d.eval.yaml",
        line=3,
        expected_outcome=" Outcome ",
        question="raw",
        messages=(),
        input_messages=(),
        reference_answer=reference_answer,
    )
    return Context(case, Prompt(question=" Q "), " Answer ").replace(**changes)


def reply(*checks: tuple[str, bool], overall: str = "sum") -> str:
    listed = [{"id": name, "satisfied": satisfied, "reasoning": f"{name} because"} for name, satisfied in checks]
    return json.dumps({"checks": listed, "overall_reasoning": overall})


def test_the_prompt_lists_the_rubrics_after_the_case() -> None:
    prompt = build_user_prompt(make_context("Ref"))
    sections, closing = prompt.rsplit("\n\n", 1)
    assert sections == (
        "[[ ## question ## ]]\n Q \n\n"
        "[[ ## expected_outcome ## ]]\n Outcome \n\n"
        "[[ ## reference_answer ## ]]\nRef\n\n"
        "[[ ## candidate_answer ## ]]\n Answer \n\n"
        "[[ ## rubrics ## ]]\n"
        "- [a] (REQUIRED) (weight: 2): A d\n"
        "- [b]: B d\n"
        "- [c] (REQUIRED) (weight: 1.5): C d"
    )
    assert closing == "Check the candidate answer against every rubric of the list and reply with the JSON object."


def test_the_trace_stands_before_the_rubrics_when_it_is_asked_for() -> None:
    context = make_context(trace_summary=TraceSummary(0, (), {}, 0))
    prompt = build_user_prompt(context, include_trace=True)
    names = [line[6:-6] for line in prompt.splitlines() if line.startswith("[[ ## ")]
    assert names == ["question", "expected_outcome", "candidate_answer", "trace_summary", "rubrics"]


@pytest.mark.parametrize(
    ("checks", "value", "verdict", "misses"),
    [
        ([("a", True), ("b", False)], 2 / 3, "fail", ("[b] B d: b because", "[c] C d: not judged")),
        ([("a", True), ("c", True)], 1.0, "pass", ("[b] B d: not judged",)),
        ([("a", True), ("b", True), ("c", False), ("zz", False)], 3 / 4.5, "fail", ("[c] C d: c because",)),
        ([("a", True), ("b", False), ("c", True)], 3.5 / 4.5, "borderline", ("[b] B d: b because",)),
        (
            [("[a]", True), (" [b] ", False), ("c", True), ("[zz]", False)],
            3.5 / 4.5,
            "borderline",
            ("[b] B d: [b]  because",),
        ),
        ([("a", True), ("a", True), ("b", True), ("c", True)], 1.0, "pass", ()),
    ],
)
def test_checks_are_those_of_the_rubrics_with_their_ids(checks: Any, value: float, verdict: str, misses: Any) -> None:
    score = read_checks(reply(*checks), RUBRICS)
    assert (score.value, score.verdict, score.misses) == (pytest.approx(value), verdict, misses)
    assert (score.reasoning, score.error) == ("sum", None)


LACKS = "lacks `checks` (each with `id` and `satisfied`)."
BOTH = "The judge's reply says of a both that it is satisfied and that it is not."


@pytest.mark.parametrize(
    ("text", "error"),
    [
        *(
            (reply(*checks), "The judge's reply has no check for a, b, c.")
            for checks in ((), (("zz", True), ("A", False)))
        ),
        *(
            (reply(("a", first), ("b", True), (again, not first)), BOTH)
            for first in (True, False)
            for again in ("a", "[a]")
        ),
        ("bad", "The judge's reply holds no JSON object with `checks` (each with `id` and `satisfied`)."),
        *(
            (text, f"The JSON object in the judge's reply {LACKS}")
            for text in (
                '{"checks": {}, "overall_reasoning": ""}',
                '{"checks": [{"id": "a", "satisfied": "yes", "reasoning": ""}], "overall_reasoning": ""}',
                '{"checks": [{"id": 1, "satisfied": true, "reasoning": ""}], "overall_reasoning": ""}',
                '{"checks": ["a"], "overall_reasoning": ""}',
                '{"score": 1}',
            )
        ),
    ],
)
def test_a_reply_that_is_no_judgement_scores_0_and_is_kept(text: str, error: str) -> None:
    assert read_checks(text, RUBRICS) == Score(0.0, reasoning=error, raw_output=text, error=error)


def test_a_contradiction_about_what_nobody_asked_does_no_harm() -> None:
    assert read_checks(reply(("a", True), ("b", True), ("a", False)), RUBRICS[1:2]).value == 1.0


def test_a_score_without_the_check_of_a_rubric_that_counts_cannot_be_negated() -> None:
    assert read_checks(reply(("a", False), ("b", False)), RUBRICS).unknown == "The judge's reply has no check for c"
    assert read_checks(reply(("a", False), ("b", False), ("c", False)), RUBRICS).unknown is None
    silent = (*RUBRICS[:2], Rubric(id="c", description="C d", weight=0.0))
    assert read_checks(reply(("a", False), ("b", False)), silent).unknown is None, "it does not count"
    nothing = read_checks(reply(("a", True)), (Rubric(id="a", description="A", weight=0.0),))
    assert (nothing.value, nothing.unknown) == (0.0, NOTHING_COUNTS)


@pytest.mark.parametrize("reason", ["", ', "reasoning": null', ', "reasoning": " "'])
def test_checks_need_no_reasons(reason: str) -> None:
    text = f'{{"checks": [{{"id": "b", "satisfied": true{reason}}}, {{"id": "c", "satisfied": false{reason}}}]}}'
    assert read_checks(text, RUBRICS[1:2]) == Score(1.0, hits=("[b] B d",), verdict="pass")
    assert read_checks(text, RUBRICS[1:]).misses == ("[c] C d",)


def test_the_prompt_shows_what_the_target_looked_up() -> None:
    system_prompt, user_prompt = build_question(make_context(retrieved_context=("Page 1", "Page 2")))
    (shown,) = re.findall(r"\[\[ ## retrieved_context ## ]]\n<(quoted-\w+)>Page 1\n\nPage 2</\1>", user_prompt)
    assert f"<{shown}>" in system_prompt
    copied = asyncio.run(judge_rubrics(Judge(), RUBRICS, make_context(retrieved_context=(CHECKED,))))
    assert "stands in the answer or the case" in copied.error


IDS = st.sampled_from(["a", "b", "c", "zz"])


@given(
    st.lists(st.tuples(IDS, st.booleans())),
    st.lists(st.builds(Rubric, id=IDS, description=st.just("d"), weight=st.floats(0, 1e6))),
)
def test_scores_stay_within_their_bounds_and_every_rubric_is_accounted_for(
    checks: list[tuple[str, bool]], rubrics: list[Rubric]
) -> None:
    score = read_checks(reply(*checks), rubrics)
    doubtful = any((rubric.id, True) in checks and (rubric.id, False) in checks for rubric in rubrics)
    is_judged = not rubrics or any(rubric.id == name for rubric in rubrics for name, _ in checks)
    assert 0.0 <= score.value <= 1.0
    assert (score.error is None) is (is_judged and not doubtful)
    misses = [miss for miss in score.misses if miss != NOTHING_COUNTS]
    assert len(score.hits) + len(misses) == (0 if score.error else len(rubrics))
