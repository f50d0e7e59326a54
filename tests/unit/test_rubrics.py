import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.judge import CHECKS_CONTRACT, Rubric, judge_rubrics
from pytest_agentv.evaluators.judge import build_rubrics_question as build_question
from pytest_agentv.evaluators.judge import read_checks as read_checks_of
from pytest_agentv.evaluators.judge_reply import JudgeQuestion
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.messages import TraceSummary
from pytest_agentv.model.results import NOTHING_COUNTS, Score

RUBRICS = (
    Rubric(id="a", description="A d", weight=2.0),
    Rubric(id="b", description="B d", required=False),
    Rubric(id="c", description="C d", weight=1.5),
)


def build_user_prompt(context: Context, *, include_trace: bool = False) -> str:
    """Return the prompt without the markers around quoted texts."""
    return re.sub(
        "</?quoted-[0-9a-f]{16}>", "", build_question(RUBRICS, context, include_trace=include_trace).user_prompt
    )


def read_checks(reply: str, rubrics: Sequence[Rubric]) -> Score:
    return read_checks_of(reply, JudgeQuestion("system", "user"), rubrics)


@dataclass
class ScriptedJudge:
    reply: str
    name: str = "grader"

    async def ask(self, system_prompt: str, user_prompt: str, context: Context, schema: object = None) -> str:
        return self.reply


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


def test_a_blank_reference_answer_has_no_section() -> None:
    assert "reference_answer" not in build_user_prompt(make_context(" \n"))


def test_the_trace_stands_before_the_rubrics_when_it_is_asked_for() -> None:
    context = make_context(trace_summary=TraceSummary(0, (), {}, 0))
    prompt = build_user_prompt(context, include_trace=True)
    names = [line[6:-6] for line in prompt.splitlines() if line.startswith("[[ ## ")]
    assert names == ["question", "expected_outcome", "candidate_answer", "trace_summary", "rubrics"]


def test_a_rubric_left_out_does_not_count_but_is_a_miss_and_fails_where_it_is_required() -> None:
    score = read_checks(reply(("a", True), ("b", False)), RUBRICS)
    assert score.value == pytest.approx(2 / 3)
    assert score.verdict == "fail"
    assert score.hits == ("[a] A d: a because",)
    assert score.misses == ("[b] B d: b because", "[c] C d: not judged")
    assert score.reasoning == "sum"


def test_an_id_in_the_brackets_of_the_prompt_is_that_of_its_rubric() -> None:
    """A required rubric was "not judged", and failed the case."""
    score = read_checks(reply(("[a]", True), (" [b] ", False), ("c", True), ("[zz]", False)), RUBRICS)
    assert score.unmet_required is None
    assert score.misses == ("[b] B d: [b]  because",)
    both = read_checks(reply(("a", True), ("[a]", False), ("c", True)), RUBRICS)
    assert both.error is not None


def test_an_optional_rubric_left_out_does_not_fail() -> None:
    score = read_checks(reply(("a", True), ("c", True)), RUBRICS)
    assert (score.value, score.verdict, score.misses) == (1.0, "pass", ("[b] B d: not judged",))


def test_a_required_rubric_that_is_not_satisfied_fails_and_unknown_ids_are_ignored() -> None:
    score = read_checks(reply(("a", True), ("b", True), ("c", False), ("zz", False)), RUBRICS)
    assert score.value == pytest.approx(3 / 4.5)
    assert score.verdict == "fail"
    assert score.misses == ("[c] C d: c because",)


def test_an_optional_rubric_that_is_not_satisfied_leaves_the_verdict_to_the_score() -> None:
    score = read_checks(reply(("a", True), ("b", False), ("c", True)), RUBRICS)
    assert (round(score.value, 4), score.verdict) == (0.7778, "borderline")


@pytest.mark.parametrize("checks", [(), (("zz", True), ("A", False))])
def test_a_reply_without_a_check_of_any_rubric_is_no_judgement(checks: tuple[tuple[str, bool], ...]) -> None:
    text = reply(*checks)
    error = "The judge's reply has no check for a, b, c."
    assert read_checks(text, RUBRICS) == Score(0.0, reasoning=error, raw_output=text, error=error)


def test_a_score_without_the_check_of_a_rubric_cannot_be_negated() -> None:
    assert read_checks(reply(("a", False), ("b", False)), RUBRICS).unknown == "The judge's reply has no check for c"
    assert read_checks(reply(("a", False), ("b", False), ("c", False)), RUBRICS).unknown is None
    silent = (*RUBRICS[:2], Rubric(id="c", description="C d", weight=0.0))
    assert read_checks(reply(("a", False), ("b", False)), silent).unknown is None, "it does not count"


def test_of_two_equal_checks_of_one_rubric_the_first_counts() -> None:
    assert read_checks(reply(("a", True), ("a", True)), RUBRICS[:1]) == read_checks(reply(("a", True)), RUBRICS[:1])


@pytest.mark.parametrize("first", [True, False])
def test_checks_that_contradict_each_other_are_no_judgement(first: bool) -> None:
    text = reply(("a", first), ("b", True), ("a", not first))
    error = "The judge's reply says of a both that it is satisfied and that it is not."
    assert read_checks(text, RUBRICS) == Score(0.0, reasoning=error, raw_output=text, error=error)
    assert read_checks(text, RUBRICS[1:2]).value == 1.0, "nobody asked for a"


def test_weights_of_0_score_0() -> None:
    assert read_checks(reply(("a", True)), (Rubric(id="a", description="A", weight=0.0),)).value == 0.0


def test_rubrics_of_which_none_counts_cannot_be_negated() -> None:
    assert read_checks(reply(("a", True)), (Rubric(id="a", description="A", weight=0.0),)).unknown == NOTHING_COUNTS
    assert read_checks(reply(("a", True)), (Rubric(id="a", description="A", weight=0.5),)).unknown is None


def test_there_is_no_limit_to_hits() -> None:
    rubrics = tuple(Rubric(id=str(number), description="d") for number in range(9))
    assert len(read_checks(reply(*((str(number), True) for number in range(9))), rubrics).hits) == 9


@pytest.mark.parametrize(
    "text",
    [
        "bad",
        '{"checks": {}, "overall_reasoning": ""}',
        '{"checks": [{"id": "a", "satisfied": "yes", "reasoning": ""}], "overall_reasoning": ""}',
        '{"checks": [{"id": 1, "satisfied": true, "reasoning": ""}], "overall_reasoning": ""}',
        '{"checks": ["a"], "overall_reasoning": ""}',
        '{"score": 1}',
    ],
)
def test_an_unreadable_reply_scores_0_and_is_kept(text: str) -> None:
    error = "The JSON object in the judge's reply lacks `checks` (each with `id` and `satisfied`)."
    if text == "bad":
        error = "The judge's reply holds no JSON object with `checks` (each with `id` and `satisfied`)."
    assert read_checks(text, RUBRICS) == Score(0.0, reasoning=error, raw_output=text, error=error)


def test_checks_need_no_reasons() -> None:
    text = '{"checks": [{"id": "b", "satisfied": true}, {"id": "c", "satisfied": false, "reasoning": null}]}'
    assert read_checks(text, RUBRICS[1:2]) == Score(1.0, hits=("[b] B d",), verdict="pass")
    assert read_checks(text, RUBRICS[1:]).misses == ("[c] C d",)


def test_the_prompt_shows_what_the_target_looked_up() -> None:
    question = build_question(RUBRICS, make_context(retrieved_context=("Page 1", "Page 2")))
    (shown,) = re.findall(r"\[\[ ## retrieved_context ## ]]\n<(quoted-\w+)>Page 1\n\nPage 2</\1>", question.user_prompt)
    assert f"<{shown}>" in question.system_prompt
    assert "Page 1\n\nPage 2" in question.material


def test_blank_reasons_leave_no_dangling_colon() -> None:
    text = '{"checks": [{"id": "b", "satisfied": true, "reasoning": " "}], "overall_reasoning": ""}'
    assert read_checks(text, RUBRICS[1:2]) == Score(1.0, hits=("[b] B d",), verdict="pass")


def test_the_score_keeps_what_was_asked() -> None:
    score = asyncio.run(judge_rubrics(ScriptedJudge("bad"), RUBRICS, make_context()))
    question = build_question(RUBRICS, make_context())
    assert question.system_prompt.endswith(CHECKS_CONTRACT)
    assert score.request == {
        "user_prompt": question.user_prompt,
        "system_prompt": question.system_prompt,
        "target": "grader",
    }
    assert (score.raw_output, score.judge_retries) == ("bad", 2)
    assert score.error == (
        "the judge 'grader' gave no judgement in 3 replies: "
        "The judge's reply holds no JSON object with `checks` (each with `id` and `satisfied`)."
    )


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
