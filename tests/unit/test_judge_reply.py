"""What no folder of the corpus shows of judges: any reply, however long or odd, is judged in bounds and in time.

`tests/corpus/judge-replies-at-their-edges` shows what judgement a reply holds.
"""

import asyncio
import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agentv.cases.evaluators import TEMPLATE_VARIABLES
from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.answer_data import (
    JudgeQuestion,
    Quotes,
    json_object,
    read_judgement,
    read_reply,
    require_judge,
)
from pytest_agentv.evaluators.composite import WeightedAverage
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.judge import Rubric, build_variables, read_checks
from pytest_agentv.evaluators.run import build_result
from pytest_agentv.evaluators.script import CodeJudge, parse_judgement
from pytest_agentv.model.base import trim
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.results import NOTHING_COUNTS, EvaluatorResult, Score

CASE = EvalCase("c", "d", "/e/x.eval.yaml", 1, "outcome", "q", (), ())


def read(reply: str) -> Score:
    return read_reply(read_judgement, reply, JudgeQuestion("system", "user"))


def test_no_text_can_close_its_own_marker() -> None:
    quotes = Quotes(["answer"])
    marked = quotes.around("answer")
    assert marked != Quotes([marked]).around("answer"), "another text has another marker"
    assert marked == Quotes(["answer"]).around("answer"), "the cache knows the question again"
    assert marked.partition(">")[0] in quotes.rule


def test_the_reader_of_files_knows_every_variable_that_is_filled() -> None:
    assert set(TEMPLATE_VARIABLES) == set(build_variables(Context(CASE, Prompt("q"), "answer")))


def test_thoughts_are_left_out_in_time_that_grows_with_the_text_only() -> None:
    for text in ("<think>" * 60_000, "</think>" * 60_000, "<think>x</think>y" * 30_000):
        started = time.process_time()
        read(text)
        assert time.process_time() - started < 2, text[:20]


def test_of_an_endless_unreadable_reply_the_record_keeps_the_end() -> None:
    assert read("x" * 20_000 + "y").raw_output == "…" + "x" * 9_999 + "y"


@pytest.mark.parametrize("text", ['{"a":' * 40_000, '{"a":[' * 40_000, "{" * 400_000, '{"a": 1' + "0" * 5000 + "}"])
def test_hostile_texts_are_neither_errors_nor_slow(text: str) -> None:
    assert read(text).error
    assert json_object(text) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
REPLIES = st.fixed_dictionaries(
    {"score": st.floats() | st.integers() | JSON},
    optional={"hits": JSON | st.lists(st.text()), "misses": JSON, "reasoning": JSON},
)


@given(REPLIES.map(json.dumps) | st.text())
def test_scores_and_feedback_stay_within_their_bounds(reply: str) -> None:
    score = read(reply)
    assert 0.0 <= score.value <= 1.0
    assert len(score.hits) <= 4
    assert len(score.misses) <= 4
    assert all(trim(entry) == entry != "" for entry in score.hits + score.misses)
    assert 0 <= build_result(CodeJudge(script="x"), parse_judgement(reply)).score <= 1


IDS = st.sampled_from(["a", "b", "c", "zz"])


@given(
    st.lists(st.tuples(IDS, st.booleans())),
    st.lists(st.builds(Rubric, id=IDS, description=st.just("d"), weight=st.floats(0, 1e6))),
)
def test_every_rubric_is_accounted_for(checks: list[tuple[str, bool]], rubrics: list[Rubric]) -> None:
    listed = [{"id": name, "satisfied": satisfied, "reasoning": f"{name} because"} for name, satisfied in checks]
    reply = json.dumps({"checks": listed, "overall_reasoning": "sum"})
    score = read_reply(lambda *given: read_checks(*given, rubrics), reply, JudgeQuestion("system", "user"))
    doubtful = any((rubric.id, True) in checks and (rubric.id, False) in checks for rubric in rubrics)
    is_judged = not rubrics or any(rubric.id == name for rubric in rubrics for name, _ in checks)
    assert 0.0 <= score.value <= 1.0
    assert (score.error is None) is (is_judged and not doubtful)
    misses = [miss for miss in score.misses if miss != NOTHING_COUNTS]
    assert len(score.hits) + len(misses) == (0 if score.error else len(rubrics))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(-1e6, 1e6))))
@example([(1.0, 5e-324), (1.0, -1e6)])
@example([(0.8, 1.0)] * 10)
def test_a_weighted_average_stays_within_its_bounds(members: list[tuple[float, float]]) -> None:
    results = [EvaluatorResult(str(index), "own", value) for index, (value, _) in enumerate(members)]
    weights = {str(index): weight for index, (_, weight) in enumerate(members)}
    average = WeightedAverage.model_construct(weights=weights)
    value = asyncio.run(average.combine(results, None)).value
    assert 0.0 <= value <= 1.0
    assert len({member[0] for member in members}) != 1 or value in (members[0][0], 0.0)


def test_a_missing_judge_is_a_configuration_error_that_says_what_to_write() -> None:
    with pytest.raises(EvaluatorError) as caught:
        require_judge(Services(), "evaluator 'quality'")
    assert caught.value.kind == "config"
    assert str(caught.value) == (
        "evaluator 'quality' has no judge to ask: write `judge_target: <name>` in the target's entry of "
        "targets.yaml, where <name> is a target with a model"
    )
