def test_options(agentv_options):
    assert agentv_options.threshold is None
