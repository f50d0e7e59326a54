def test_paid(agentv):
    agentv.run('hi', rubrics=['Is polite'])