import parts


def pytest_agentv_providers():
    return {"mapped": parts.Listed}
