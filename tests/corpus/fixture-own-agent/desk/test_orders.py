def test_order(agentv):
    assert agentv.run("Where is 1001?", evaluators=[{"contains": "on its way"}])
