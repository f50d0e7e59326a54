from pytest_agentv import Score


class Words:
    def __init__(self, most):
        self.most = most

    def evaluate(self, context):
        count = len(context.candidate_answer.split())
        return Score(float(count <= self.most), misses=(f"{count} words",) if count > self.most else ())


def pytest_agentv_evaluators():
    return {"words-at-most": lambda spec, services: Words(spec.config["most"]), "nothing": lambda spec, services: None}
