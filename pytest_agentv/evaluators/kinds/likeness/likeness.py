"""The base of the kinds that measure likeness."""

from importlib.util import find_spec
from typing import Annotated, TypeAlias

from pydantic import Field, WithJsonSchema, field_validator

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.shared import SLACK
from pytest_agentv.models.kind import Text
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import digits_apart, format_fixed, format_number

_Threshold: TypeAlias = Annotated[
    float,
    Field(ge=0, le=1),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),  # `_can_be_missed` says why not 0
]


class Likeness(Evaluator):
    """A measure of how alike the answer and a text are: 1 for equal texts."""

    value: Text = Field(
        description="the text that the answer is compared with; whitespace around both is ignored",
        examples=["The tent costs 120 euros."],
    )
    threshold: _Threshold | None = Field(
        default=None,
        description="from this similarity the score is 1, below it 0; default: the similarity is the score",
        examples=[0.8],
    )

    @field_validator("threshold")
    @classmethod
    def _can_be_missed(cls, value: float | None) -> float | None:
        """Refuse 0, which means "no edits" where a threshold counts edits."""
        if value == 0:
            raise ValueError("every answer has a similarity of 0 or more: for an equal text write 1")
        return value

    def required_score(self, threshold: float) -> float:
        return threshold if self.threshold is None else 1.0

    def score(self, similarity: float) -> Score:
        """Return the score of a similarity."""
        details = {"similarity": similarity}
        digits = 3 if self.threshold is None else digits_apart(similarity, self.threshold, 3)
        shown = f"similarity {format_fixed(similarity, digits)}"
        if self.threshold is None:
            return Score(similarity, reasoning=shown, details=details)
        if similarity + SLACK >= self.threshold:  # as floats, 1 - 0.9 is less than 0.1
            return Score(1.0, hits=(f"{shown} >= {format_number(self.threshold)}",), details=details)
        return Score(0.0, misses=(f"{shown} < {format_number(self.threshold)}",), details=details)


def require_package(kind: str, module: str, package: str) -> None:
    """Raise `EvaluatorError` that says what to install where a package of the extra `text` is missing."""
    if find_spec(module) is None:
        message = f"`{kind}` needs the package {package}: pip install 'pytest-agentv[text]'"
        raise EvaluatorError(message, kind="config")
