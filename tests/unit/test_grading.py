import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.answer_data import json_object
from pytest_agentv.evaluators.context import Services
from pytest_agentv.evaluators.judge_reply import JudgeQuestion, feedback, read_judgement, require_judge
from pytest_agentv.model.results import Score, clamp_score
from pytest_agentv.model.text import trim

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)
QUESTION = JudgeQuestion("system", "user")
REPLIES = st.fixed_dictionaries(
    {"score": st.floats() | st.integers() | JSON},
    optional={"hits": JSON | st.lists(st.text()), "misses": JSON, "reasoning": JSON},
)


@pytest.mark.parametrize("text", ['{"a":' * 40_000, '{"a":[' * 40_000, "{" * 400_000, '{"a": 1' + "0" * 5000 + "}"])
def test_hostile_texts_are_neither_errors_nor_slow(text: str) -> None:
    assert read_judgement(text, QUESTION).error
    assert json_object(text) is None


@pytest.mark.scenario("Parse JSON evaluator response")
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param(
            '{"score":0.81,"hits":["a","b","c","d","e"],"misses":["  "," x "]}',
            Score(0.81, hits=("a", "b", "c", "d"), misses=("x",)),
            id="four trimmed hits and misses, the blank ones dropped before they are counted",
        ),
        pytest.param('{"score":1.0000001}', Score(1.0), id="rounded up"),
        pytest.param('{"score":-1e-9}', Score(0.0), id="rounded down"),
        pytest.param('{"score":0.6} and {"score":0.6}', Score(0.6), id="the same object twice"),
        pytest.param('Well:\n```json\n{"score":0.6}\n```\nBye', Score(0.6), id="fenced amid prose"),
        pytest.param(
            '{"score":0.9,"hits":"h","misses":[1,null,"m",{"point":"p"}],"reasoning":5}',
            Score(0.9, hits=("h",), misses=("m", '{"point":"p"}')),
            id="feedback is texts and objects",
        ),
        pytest.param(
            '{"score":1,"reasoning":"One.\n\tTwo."}', Score(1.0, reasoning="One.\n\tTwo."), id="raw line breaks"
        ),
        pytest.param('{"score":1,"hits":null,"reasoning":"why"}', Score(1.0, reasoning="why"), id="reasoning"),
    ],
)
def test_a_reply_becomes_a_score(reply: str, expected: Score) -> None:
    assert read_judgement(reply, QUESTION) == expected


@pytest.mark.scenario("LLM judge evaluation failure")
@pytest.mark.scenario("Parse JSON evaluator response")
@pytest.mark.parametrize(
    ("reply", "error"),
    [
        *(
            (reply, "The judge's reply holds no JSON object with a number as `score`.")
            for reply in ("bad", "", "[0.9]")
        ),
        *(
            (reply, "The JSON object in the judge's reply lacks a number as `score`.")
            for reply in ('{"score":"0.9"}', '{"score":true}', '{"score":null}', '{"score":1e999}', '{"a":{"score":1}}')
        ),
        ('{"score":NaN}', "The JSON in the judge's reply is cut or broken: NaN is no JSON."),
        (
            '{"score":1 "hits":[]}',
            "The JSON in the judge's reply is cut or broken: Expecting ',' delimiter: line 1 column 12 (char 11).",
        ),
        ('{"score":0.6} and {"score":0.9}', "The judge's reply holds several judgements that differ."),
    ],
)
def test_a_reply_without_a_valid_object_scores_0_and_is_an_error_that_keeps_it(reply: str, error: str) -> None:
    score = read_judgement(reply, QUESTION)
    assert score.replace(raw_output=None) == Score(0.0, reasoning=error, error=error)
    assert score.raw_output == reply


@pytest.mark.parametrize("score", ["1.2", "-3", "85", "1" + "0" * 400])
def test_a_score_outside_0_to_1_is_an_error(score: str) -> None:
    found = read_judgement(f'{{"score": {score}}}', QUESTION)
    assert (found.value, found.error) == (0.0, "The `score` of the judge's reply is no number from 0 to 1.")


@given(REPLIES.map(json.dumps) | st.text())
def test_scores_and_feedback_stay_within_their_bounds(reply: str) -> None:
    score = read_judgement(reply, QUESTION)
    assert 0.0 <= score.value <= 1.0
    assert len(score.hits) <= 4
    assert len(score.misses) <= 4
    assert all(trim(entry) == entry != "" for entry in score.hits + score.misses)


@given(JSON)
def test_every_value_clamps_to_a_score(value: object) -> None:
    assert 0.0 <= clamp_score(value) <= 1.0


def test_feedback_has_no_limit_unless_one_is_given() -> None:
    assert feedback(["a", " b ", "", 3, "c"]) == ("a", "b", "c")
    assert feedback(["", "a", "b"], limit=1) == ("a",)


def test_a_missing_judge_is_a_configuration_error_that_says_what_to_write() -> None:
    with pytest.raises(EvaluatorError) as caught:
        require_judge(Services(), "evaluator 'quality'")
    assert caught.value.kind == "config"
    assert str(caught.value) == (
        "evaluator 'quality' has no judge to ask: write `judge_target: <name>` in the target's entry of "
        "targets.yaml, where <name> is a target with a model"
    )
