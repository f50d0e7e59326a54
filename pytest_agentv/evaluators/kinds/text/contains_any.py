"""`contains-any`: one of several texts is in the answer."""

from typing import Annotated

from pydantic import Field

from pytest_agentv.evaluators.kinds.text.check import TextsCheck, any_of, is_in
from pytest_agentv.models.kind import NOT_EMPTY, Items, Text
from pytest_agentv.models.scores import Score


class ContainsAny(TextsCheck):
    """One of several texts is in the answer."""

    kind = "contains-any"
    examples = ({"answer": "We send it by post.", "assert": [{"contains-any": ["post", "courier"]}]},)

    value: Annotated[Items[Text], NOT_EMPTY] = Field(
        description="the texts; one of them must be there", examples=[["post", "courier"]]
    )

    def check(self, answer: str) -> Score:
        return any_of(self.value, answer, is_in)
