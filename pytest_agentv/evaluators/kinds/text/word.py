"""`word`: a word, or several in a row, is in the answer."""

import re
from functools import lru_cache

from pydantic import Field

from pytest_agentv.evaluators.kinds.text.check import TextCheck, finding, verdict
from pytest_agentv.models.kind import Text
from pytest_agentv.models.scores import Score


class Word(TextCheck):
    """A word is in the answer, and not only a part of a word: `30` is not in "130 euros"."""

    kind = "word"
    examples = ({"answer": "It costs 30 euros.", "assert": [{"word": "30"}, {"not-word": "euro"}]},)

    value: Text = Field(
        description="a word, or several in a row; upper and lower case are the same", examples=["30 euros"]
    )

    def check(self, answer: str) -> Score:
        hit, miss = finding(self.value, is_there=True), finding(self.value, is_there=False)
        return verdict(has_word(answer.casefold(), self.value), hit, miss)


def has_word(folded: str, word: str) -> bool:
    """Whether a text, case folded, has a word at word boundaries. Any white space may be between its parts."""
    return _pattern(word).search(folded) is not None


@lru_cache(maxsize=512)
def _pattern(word: str) -> re.Pattern[str]:
    parts = r"\s+".join(map(re.escape, word.casefold().split()))
    return re.compile(rf"(?<!\w){parts}(?!\w)")
