def test_each(agentv_target):
    assert agentv_target != "gpt"
