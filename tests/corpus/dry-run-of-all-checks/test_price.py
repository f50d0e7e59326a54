def test_price(agentv):
    assert agentv.run('q', evaluators=[{'python': "data['price'] > 3"}])
