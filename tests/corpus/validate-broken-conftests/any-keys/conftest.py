from pydantic import ConfigDict
from pytest_agentv import Evaluator, Score

class Brief(Evaluator):
    model_config = ConfigDict(extra="allow")
    kind = "brief"

    def evaluate(self, context):
        return Score(1.0)

def pytest_agentv_evaluators():
    return [Brief]
