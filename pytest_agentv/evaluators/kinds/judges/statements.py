"""`statements`: sentences that a model checks one by one, in one call. The bare texts of a list are these."""

from typing import Annotated

from pydantic import Field

from pytest_agentv.evaluators.base import Context, or_sync
from pytest_agentv.evaluators.judging.rubrics import Rubric, judge_statements
from pytest_agentv.evaluators.kinds.judges.model_judge import ModelJudge
from pytest_agentv.models.kind import NOT_EMPTY, Items, Text
from pytest_agentv.models.scores import Score


class Statements(ModelJudge):
    """Sentences about the answer that a model checks, all in one call; the score is the share that is true.

    A text in a list of evaluators is such a sentence. Unlike `rubrics`, it does not fail the case by itself.
    """

    kind = "statements"
    examples = ({"answer": "The tent costs 120 euros.", "assert": ["Names the price", "Is polite"]},)

    value: Annotated[Items[Text], NOT_EMPTY] = Field(
        description="what the answer does if it is good, one sentence each", examples=[["Names the price"]]
    )

    def summary(self) -> str:
        return self.value[0] if len(self.value) == 1 else f"{len(self.value)} sentences"

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        """Ask the judge. Raises `EvaluatorError` if it cannot be reached."""
        judge = self.judge_of(context.services)
        rubrics = [
            Rubric(id=f"statement-{number}", description=text, required=False)
            for number, text in enumerate(self.value, start=1)
        ]
        return await judge_statements(judge, rubrics, context)
