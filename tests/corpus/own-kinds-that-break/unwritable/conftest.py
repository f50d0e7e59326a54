from pytest_agentv import EvaluatorError, Evaluator, EvaluatorResult, Score

LOOP = {}
LOOP["self"] = LOOP
SCORES = {
    "details": Score(1.0, details={"a": 10**5000}),
    "request": Score(1.0, request=LOOP),
    "results": Score(1.0, results=(EvaluatorResult("m", "m", 1.0, details={"a": [10**5000]}),)),
}

class Odd(Evaluator):
    kind = "odd"

    def evaluate(self, context):
        if context.case.eval_id == "output":
            raise EvaluatorError("no", output=LOOP)
        return SCORES.get(context.case.eval_id) or Score(1.0)

def pytest_agentv_evaluators():
    return [Odd]
