from kinds import *

def pytest_agentv_evaluators():
    return {'good': dict}
