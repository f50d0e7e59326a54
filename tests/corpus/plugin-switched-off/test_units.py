def test_units():
    assert True


def test_eval(agentv):
    assert agentv
