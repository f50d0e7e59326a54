import parts


def pytest_agentv_providers():
    return [parts.Listed, parts.Derived]
