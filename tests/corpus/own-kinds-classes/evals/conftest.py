from pydantic import Field, field_validator

from pytest_agentv import Context, Evaluator, EvaluatorError, Score


class Brevity(Evaluator):
    """The answer is short."""

    kind = "brevity"

    longest: int = Field(ge=1, description="the most characters")

    async def evaluate(self, context: Context) -> Score:
        length = len(context.candidate_answer)
        if length <= self.longest:
            return Score(1.0, hits=("short enough",))
        return Score(0.0, misses=(f"{length} characters",))


class Greets(Evaluator):
    kind = "greets"

    value: str

    def evaluate(self, context: Context) -> Score:
        if not context.candidate_answer.strip(". "):
            raise EvaluatorError("there is nothing to judge")
        return Score(float(context.candidate_answer.startswith(self.value)))


class Broken(Evaluator):
    kind = "broken"

    def evaluate(self, context: Context) -> Score:
        return Score(1 / len(context.candidate_answer[:0]))


class Much(Evaluator):
    kind = "much"

    def evaluate(self, context: Context) -> Score:
        return Score(7.0)


class Careless(Evaluator):
    kind = "careless"

    size: int = 1

    @field_validator("size")
    @classmethod
    def _divide(cls, value: int) -> int:
        return 1 // value

    def evaluate(self, context: Context) -> Score:
        return Score(1.0)


def pytest_agentv_evaluators():
    return [Brevity, Greets, Broken, Much, Careless]
