from pytest_agentv import Evaluator, Provider, Score
class Bare:
    kind = "bare"
class Nameless(Evaluator):
    async def evaluate(self, context): return Score(1.0)
class Silent(Evaluator):
    kind = "silent"
class Closed(Provider):
    kind = "closed"
class Good(Evaluator):
    kind = "good"
    async def evaluate(self, context): return Score(1.0)
class Wordless(Good):
    kind = None
