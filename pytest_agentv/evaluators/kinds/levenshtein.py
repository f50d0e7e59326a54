"""`levenshtein`: how alike the answer and a text are, by the changes of characters that lie between them."""

from typing import Annotated

from pydantic import Field

from pytest_agentv.evaluators.base import Context, Evaluator
from pytest_agentv.evaluators.judging.reply import off_loop
from pytest_agentv.models.kind import Text
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import format_fixed, format_number, trim


class Levenshtein(Evaluator):
    """The answer is nearly a text, whatever few characters differ."""

    kind = "levenshtein"

    value: Text = Field(description="the text that the answer is held against; blanks around both do not count")
    threshold: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="the similarity from which the score is 1, below it 0; default: it is the score"
    )

    async def evaluate(self, context: Context) -> Score:
        answer = trim(context.candidate_answer)
        similarity = await off_loop(len(answer) + len(self.value), _similarity, answer, trim(self.value))
        details, shown = {"similarity": similarity}, f"similarity {format_fixed(similarity, 3)}"
        if self.threshold is None:
            return Score(similarity, reasoning=shown, details=details)
        if similarity >= self.threshold:
            return Score(1.0, hits=(f"{shown} >= {format_number(self.threshold)}",), details=details)
        return Score(0.0, misses=(f"{shown} < {format_number(self.threshold)}",), details=details)


def _similarity(left: str, right: str) -> float:
    from rapidfuzz.distance import Levenshtein as Distance  # noqa: PLC0415 - only who compares texts loads it

    return float(Distance.normalized_similarity(left, right))
