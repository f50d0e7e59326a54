def test_what_a_run_knows(agentv_options, agentv_targets):
    assert agentv_options.threshold == 0.75
    assert sorted(agentv_targets) == ["default", "terse"]
