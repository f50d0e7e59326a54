def test_a(agentv):
    checks = [{"name": "colours", "type": "heuristic", "hits": ["red", "blue"]}]
    assert agentv.run("Which colours?", evaluators=checks, threshold=0.5)
