"""The base of checks of a text, and the wording of their findings."""

from collections.abc import Iterable
from typing import Final

from pytest_agentv.evaluators.base import Context, Evaluator
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.models.scores import Score

_SHOWN: Final = 80
"""Characters of a text that a finding shows."""


class TextCheck(Evaluator):
    """A check of the answer's text that takes microseconds."""

    is_graded = False

    async def evaluate(self, context: Context) -> Score:
        return self.check(context.candidate_answer)

    def check(self, answer: str) -> Score:
        """Judge a text."""
        raise NotImplementedError


def shown(text: str) -> str:
    """Return a text in quotes, its end cut off where it is long."""
    text = text if len(text) <= _SHOWN else f"{masked(text)[:_SHOWN]}…"
    return f'"{text}"'


def verdict(is_met: bool, hit: str, miss: str) -> Score:
    """Return 1 with a hit, or 0 with a miss."""
    return Score(1.0, hits=(hit,)) if is_met else Score(0.0, misses=(miss,))


def finding(word: str, *, is_there: bool) -> str:
    """Say that a text is in the answer, or is not."""
    return f"contains {shown(word)}" if is_there else f"lacks {shown(word)}"


def any_of(words: Iterable[str], found: Iterable[str]) -> Score:
    """Score 1 where one of some texts was found."""
    hits = tuple(found)
    if hits:
        return Score(1.0, hits=tuple(finding(word, is_there=True) for word in hits))
    return Score(0.0, misses=tuple(finding(word, is_there=False) for word in words))


def share_of(words: Iterable[str], found: Iterable[str]) -> Score:
    """Score the share of the texts that were found."""
    wanted, known = tuple(words), frozenset(found)
    hits = tuple(finding(word, is_there=True) for word in wanted if word in known)
    misses = tuple(finding(word, is_there=False) for word in wanted if word not in known)
    return Score(len(hits) / len(wanted), hits=hits, misses=misses)
