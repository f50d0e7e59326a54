import json
from pytest_agentv import Evaluator, EvaluatorError

class Priced(Evaluator):
    kind = "priced"
    says: str = ""

    def evaluate(self, context):
        if self.says:
            raise EvaluatorError(self.says)
        return json.loads(context.candidate_answer)["price"]

class Wordless(Evaluator):
    kind = "wordless"

    def evaluate(self, context):
        return "good"

def pytest_agentv_evaluators():
    return [Priced, Wordless]
