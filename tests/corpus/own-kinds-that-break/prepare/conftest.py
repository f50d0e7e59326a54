from pytest_agentv import Context, Evaluator, EvaluatorError, Score, Services

class Checked(Evaluator):
    kind = "checked"
    longest: int

    def prepare(self, services: Services) -> None:
        if self.longest < 1:
            raise EvaluatorError("longest must be positive", kind="config")

    def evaluate(self, context: Context) -> Score:
        return Score(float(len(context.candidate_answer) <= self.longest))

class Late(Checked):
    kind = "late"

    async def prepare(self, services: Services) -> Evaluator:
        return self

class Odd(Checked):
    kind = "odd"

    def prepare(self, services: Services):
        return {"longest": 5}

def pytest_agentv_evaluators():
    return [Checked, Late, Odd]
