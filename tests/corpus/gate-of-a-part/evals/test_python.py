def test_python(agentv):
    assert agentv.run("Hello", evaluators=[{"contains": "costs"}])
