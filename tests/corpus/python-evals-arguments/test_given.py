import pytest

from pytest_agentv import Message, ProviderResponse

HELLO = [{"contains": "hello"}]
SAFE = [{"not-tool-called": "rm"}]


def test_calls_of_a_text_are_unknown(agentv):
    for messages in ({}, {"output_messages": []}):
        with pytest.raises(Exception, match="No trace available"):
            agentv.evaluate("found", evaluators=[{"type": "tool_trajectory", "mode": "exact", "expected": []}], **messages)


def test_no_calls(agentv):
    said = [{"role": "assistant", "content": "found"}]
    assert agentv.evaluate("found", output_messages=said, evaluators=SAFE)
    assert agentv.evaluate("", output_messages=[{"role": "assistant", "content": None}], evaluators=SAFE)


def test_data(agentv):
    fields = [{"name": "f", "type": "field_accuracy", "fields": [{"path": "a", "match": "exact"}]}]
    expected = [{"role": "assistant", "content": {"a": 1}}]
    assert agentv.evaluate({"a": 1}, expected_messages=expected, evaluators=fields).candidate_answer == '{"a":1}'


def test_response(agentv):
    response = ProviderResponse(output_messages=(Message("assistant", "hello"),), cost_usd=1.0)
    assert not agentv.evaluate(response, evaluators=[{"name": "cheap", "type": "cost", "budget": 0.01}])
    listed = ProviderResponse(output_messages=[Message("user", "q"), Message("assistant", "hello")])
    assert type(agentv.evaluate(listed, evaluators=HELLO).output_messages) is tuple


def test_nonsense(agentv):
    with pytest.raises(TypeError, match="expected an answer: a text, data or a ProviderResponse, got int"):
        agentv.evaluate(5, evaluators=HELLO)
    with pytest.raises(TypeError, match="got an invalid ProviderResponse: output_messages: expected a list"):
        agentv.evaluate(ProviderResponse(output_messages="x"), evaluators=HELLO)
    with pytest.raises(ValueError, match=r"output_messages: output_messages.0.role: Field required"):
        agentv.evaluate("x", output_messages=[{}], evaluators=HELLO)
