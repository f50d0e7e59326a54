from pytest_agentv import Score


class Content:
    async def evaluate(self, context):
        return Score(1.0, hits=("the nearest one is content",))


def pytest_agentv_evaluators():
    return {"words-at-most": lambda spec, services: Content()}
