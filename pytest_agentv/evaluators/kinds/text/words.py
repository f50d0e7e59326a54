"""`words`: several words are in the answer."""

from typing import Annotated

from pydantic import Field

from pytest_agentv.evaluators.kinds.text.check import TextsCheck, share_of
from pytest_agentv.evaluators.kinds.text.word import has_word
from pytest_agentv.models.kind import NOT_EMPTY, Items, Text
from pytest_agentv.models.scores import Score


class Words(TextsCheck):
    """Several words are in the answer, and not only as parts of words."""

    kind = "words"
    examples = ({"answer": "The Tent costs 120 euros.", "assert": [{"words": ["tent", "120"]}]},)

    value: Annotated[Items[Text], NOT_EMPTY] = Field(
        description="the words; the score is the share that is there (case-insensitive)",
        examples=[["tent", "120"]],
    )

    def check(self, answer: str) -> Score:
        return share_of(self.value, answer.casefold(), has_word)
