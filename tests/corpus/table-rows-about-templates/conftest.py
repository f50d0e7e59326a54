from pytest_agentv import Evaluator, Score

class Says(Evaluator):
    kind = "says"
    template: str

    async def evaluate(self, context):
        wanted = self.template.replace("{{ input }}", context.case.question)
        return Score(float(wanted in context.candidate_answer))

def pytest_agentv_evaluators():
    return [Says]
