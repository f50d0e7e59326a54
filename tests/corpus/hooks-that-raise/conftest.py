def pytest_agentv_summary(results, verdict):
    raise RuntimeError("summary")
