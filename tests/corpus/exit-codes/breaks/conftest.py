def pytest_runtestloop(session):
    raise RuntimeError("the plugin of the project is broken")
