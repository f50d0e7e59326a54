from pytest_agentv import Evaluator, Score


class Content(Evaluator):
    kind = "content"
    most: int

    async def evaluate(self, context):
        return Score(1.0, hits=("the nearest one is content",))


def pytest_agentv_evaluators():
    return {"words-at-most": Content}
