"""`icontains-all`: several texts are in the answer (case-insensitive)."""

from typing import Annotated

from pydantic import Field

from pytest_agentv.evaluators.kinds.text.check import TextsCheck, is_in_folded, share_of
from pytest_agentv.models.kind import NOT_EMPTY, Items, Text
from pytest_agentv.models.scores import Score


class IContainsAll(TextsCheck):
    """Several texts are in the answer (case-insensitive)."""

    kind = "icontains-all"
    examples = ({"answer": "The Tent costs 120 Euros.", "assert": [{"icontains-all": ["tent", "euros"]}]},)

    value: Annotated[Items[Text], NOT_EMPTY] = Field(
        description="the texts; the score is the share that is there (case-insensitive)",
        examples=[["tent", "euros"]],
    )

    def check(self, answer: str) -> Score:
        return share_of(self.value, answer.casefold(), is_in_folded)
