from brevity import Brevity
from parrot import Parrot


def pytest_agentv_evaluators():
    return [Brevity]


def pytest_agentv_providers():
    return [Parrot]
