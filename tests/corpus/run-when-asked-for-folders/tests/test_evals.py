def test_it(agentv):
    assert agentv.run('hi', rubrics=['Says hi'])
