def test_hooked(agentv):
    assert agentv.run("q", evaluators=[{"type": "asking"}])
