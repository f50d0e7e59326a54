from pytest_agentv import Evaluator, Score


class Words(Evaluator):
    kind = "words-of-a-class"
    most: int

    def evaluate(self, context):
        count = len(context.candidate_answer.split())
        return Score(float(count <= self.most), misses=(f"{count} words",) if count > self.most else ())


def pytest_agentv_evaluators():
    return {"words-at-most": Words}
