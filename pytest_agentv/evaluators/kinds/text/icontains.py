"""`icontains`: a text is in the answer, in upper or lower case."""

from pydantic import Field

from pytest_agentv.evaluators.kinds.text.check import TextCheck, is_in_folded, presence
from pytest_agentv.models.kind import Text
from pytest_agentv.models.scores import Score


class IContains(TextCheck):
    """A text is in the answer (case-insensitive)."""

    kind = "icontains"
    examples = ({"answer": "Free Shipping on all orders.", "assert": [{"icontains": "free shipping"}]},)

    value: Text = Field(description="what must be there, in upper or lower case", examples=["free shipping"])

    def check(self, answer: str) -> Score:
        return presence(self.value, answer.casefold(), is_in_folded)
