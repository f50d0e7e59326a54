"""`contains-all`: several texts are in the answer."""

from typing import Annotated

from pydantic import Field

from pytest_agentv.evaluators.kinds.text.check import TextsCheck, is_in, share_of
from pytest_agentv.models.kind import NOT_EMPTY, Items, Text
from pytest_agentv.models.scores import Score


class ContainsAll(TextsCheck):
    """Several texts are in the answer."""

    kind = "contains-all"
    examples = ({"answer": "The tent costs 120 euros.", "assert": [{"contains-all": ["tent", "120"]}]},)

    value: Annotated[Items[Text], NOT_EMPTY] = Field(
        description="the texts; the score is the share that is there", examples=[["tent", "120"]]
    )

    def check(self, answer: str) -> Score:
        return share_of(self.value, answer, is_in)
