from pytest_agentv import Evaluator, Score

class Forbidden(Evaluator):
    kind = "forbidden"
    words: list[str]

    def evaluate(self, context):
        return Score(float(not any(word in context.candidate_answer for word in self.words)))

def pytest_agentv_evaluators():
    return [Forbidden]

def pytest_agentv_case(case):
    for each in case.evaluators:
        for one in each.walk():
            if one.kind == "forbidden":
                one.words.clear()
    case.evaluators[-1].value["hello"] = 1
