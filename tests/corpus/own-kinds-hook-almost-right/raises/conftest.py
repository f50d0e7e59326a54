def pytest_agentv_evaluators():
    raise SystemExit('oops')
