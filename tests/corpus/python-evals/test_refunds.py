import pytest

LIMIT = [{"name": "limit", "type": "heuristic", "hits": ["30 days", "receipt"]}]
FREE = [{"name": "free", "type": "heuristic", "hits": ["30 days", "free"]}]


def test_text(agentv):
    result = agentv.run("How long?", evaluators=LIMIT)
    assert result
    assert (result.score, result.status, result.candidate_answer) == (1, "pass", "Within 30 days, with the receipt.")


@pytest.mark.parametrize("product", ["blender", "toaster"])
def test_messages(agentv, product):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"And a {product}?"}]
    agentv.run(messages, evaluators=FREE, threshold=0.5).assert_passed()


def test_mapping(agentv):
    assert agentv.run({"id": "limit", "criteria": "names the limit", "input": "30 days?"}, evaluators=LIMIT)


def test_failed(agentv):
    assert agentv.run("How much?", evaluators=FREE)


def test_failed_in_words(agentv):
    agentv.run("How much?", id="fee", evaluators=FREE).assert_passed()


def test_nobody_looks(agentv):
    agentv.run("How much?", evaluators=FREE)


def test_several(agentv):
    assert agentv.run("One?", evaluators=LIMIT)
    assert agentv.run("Two?", evaluators=LIMIT, repeat=2)
