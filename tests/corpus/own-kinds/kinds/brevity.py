from pydantic import Field

from pytest_agentv import Context, Evaluator, EvaluatorError, Score


class Brevity(Evaluator):
    """The answer is short."""

    kind = "brevity"

    longest: int = Field(ge=1, description="the most characters that the answer may have")

    def evaluate(self, context: Context) -> Score:
        length = len(context.candidate_answer)
        if not length:
            raise EvaluatorError("nothing to measure")
        if length <= self.longest:
            return Score(1.0, hits=("short enough",))
        return Score(0.0, misses=(f"{length} characters",))
