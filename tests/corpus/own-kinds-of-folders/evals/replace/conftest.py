from pytest_agentv import Context, Evaluator, Score


class Contains(Evaluator):
    """As the built-in one, but in lower case."""

    kind = "contains"

    value: str

    def evaluate(self, context: Context) -> Score:
        return Score(float(self.value.lower() in context.candidate_answer.lower()), reasoning="my own")


def pytest_agentv_evaluators():
    return [Contains]
