LIMIT = [{"name": "limit", "type": "contains", "value": "30 days"}]
CALLS = [{"role": "assistant", "tool_calls": [{"tool": "search", "input": {"query": "returns"}}]}]
SEARCHED = [{"name": "searched", "type": "tool_trajectory", "mode": "in_order", "expected": [{"tool": "search"}]}]


def test_text(agentv):
    assert agentv.evaluate("Within 30 days.", evaluators=LIMIT)


def test_calls(agentv):
    assert agentv.evaluate("Within 30 days.", output_messages=CALLS, evaluators=SEARCHED)


def test_data(agentv):
    assert agentv.evaluate({"days": 30}, evaluators=[{"type": "is-json"}])


def test_wrong(agentv):
    assert agentv.evaluate("Within 14 days.", prompt="How long?", evaluators=LIMIT)
