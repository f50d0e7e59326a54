"""`icontains-any`: one of several texts is in the answer (case-insensitive)."""

from typing import Annotated

from pydantic import Field

from pytest_agentv.evaluators.kinds.text.check import TextsCheck, any_of, is_in_folded
from pytest_agentv.models.kind import NOT_EMPTY, Items, Text
from pytest_agentv.models.scores import Score


class IContainsAny(TextsCheck):
    """One of several texts is in the answer (case-insensitive)."""

    kind = "icontains-any"
    examples = ({"answer": "We send it by Post.", "assert": [{"icontains-any": ["post", "courier"]}]},)

    value: Annotated[Items[Text], NOT_EMPTY] = Field(
        description="the texts; one of them must be there (case-insensitive)",
        examples=[["post", "courier"]],
    )

    def check(self, answer: str) -> Score:
        return any_of(self.value, answer.casefold(), is_in_folded)
