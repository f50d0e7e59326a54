"""`contains`: a text is in the answer."""

from pydantic import Field

from pytest_agentv.evaluators.kinds.text.check import TextCheck, is_in, presence
from pytest_agentv.models.kind import Text
from pytest_agentv.models.scores import Score


class Contains(TextCheck):
    """A text is in the answer."""

    kind = "contains"
    examples = ({"answer": "You may return it within 30 days.", "assert": [{"contains": "30 days"}]},)

    value: Text = Field(description="what must be there (case-sensitive)", examples=["30 days"])

    def check(self, answer: str) -> Score:
        return presence(self.value, answer, is_in)
