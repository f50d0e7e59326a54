from pytest_agentv import Evaluator, Score

class Nosy(Evaluator):
    kind = "nosy"
    words: list[str] = ["hello"]

    def prepare(self, services):
        assert "CHANGED" not in services.environment
        services.environment["CHANGED"] = "1"
        self._change(services.case)

    def evaluate(self, context):
        assert "CHANGED" not in context.services.environment
        self._change(context.case)
        self._change(context.services.case)
        return Score(1.0)

    def _change(self, case):
        assert case.vars["order"] == 7
        case.vars["order"] = 8

def pytest_agentv_evaluators():
    return [Nosy]
