import pytest

HI = [{"contains": "hi"}]

@pytest.mark.parametrize("agentv_target", ["default", "model"])
def test_it(agentv):
    assert agentv.run("hi", evaluators=HI)

@pytest.mark.parametrize("agentv_target", ["model"])
def test_a_call(agentv_provider):
    agentv_provider("hi")

@pytest.mark.parametrize("key", [{"target": "model"}, {"execution": {"target": "model"}}])
def test_target_of_the_case(agentv, key):
    assert agentv.run({"input": "hi", **key}, evaluators=HI)

def test_given_answer(agentv):
    assert agentv.evaluate("hi", prompt={"input": "hi", "target": "model"}, evaluators=HI)

def test_sentence(agentv):
    assert agentv.run("hi", rubrics=["Says hi"])

def test_embeds(agentv):
    assert agentv.evaluate("hi", evaluators=[{"similar": "hi", "target": "model"}])
