import pytest

from pytest_agentv import Contains, EvalErrored, Length

ANSWER = "You may return it within 30 days."


def test_passes(agentv):
    checks = [Contains(value="30 days"), Length(max_words=20), {"not-contains": "sorry"}]
    assert agentv.run(ANSWER, evaluators=checks)


def test_fails(agentv):
    assert agentv.run(ANSWER, evaluators=[Contains(value="60 days"), {"contains": "30 days"}], threshold=0.8)


def test_not_judged(agentv):
    agentv.run(ANSWER, evaluators=[{"python": "1 / 0"}])


def test_an_answer_that_is_there(agentv):
    assert agentv.evaluate(ANSWER, evaluators=[{"contains": "30 days"}]).score == 1


def test_wrong_key(agentv):
    with pytest.raises(EvalErrored, match="valu"):
        agentv.run(ANSWER, evaluators=[{"type": "contains", "valu": "30 days"}])
