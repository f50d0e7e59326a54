from pytest_agentv import Evaluator, Provider, Score

class Parrot(Provider):
    kind = "parrot"
    south: str
    def open(self, environment):
        return self
    def invoke(self, request):
        return "parrot south"

class Mine(Evaluator):
    kind = "mine"
    def evaluate(self, context):
        return Score(1.0, hits=("judged in south",))

def pytest_agentv_providers():
    return [Parrot]

def pytest_agentv_evaluators():
    return [Mine]
