from pytest_agentv import Evaluator, EvaluatorResult, Score

class Composed(Evaluator):
    kind = "composed"
    member: dict
    deep: bool = False

    def evaluate(self, context):
        member = EvaluatorResult(**{"name": "b", "type": "b", "score": 1.0, "verdict": "pass"} | self.member)
        above = EvaluatorResult("above", "b", 1.0, evaluator_results=(member,))
        return Score(1.0, results=(above if self.deep else member,))

def pytest_agentv_evaluators():
    return [Composed]
