"""The base of checks of a text, and the wording of their findings."""

import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator

from pytest_agentv.evaluators.base import Context, Evaluator, or_sync
from pytest_agentv.evaluators.shared import CHARACTER_DIFFERS, FORM_DIFFERS
from pytest_agentv.models.kind import Items, Text, expected
from pytest_agentv.models.masking.secrets import MASK, beginning, masked
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import trim

_SHOWN: Final = 80
"""Characters of a text that a finding shows."""

_Form: TypeAlias = Literal["NFC", "NFKC"]
_PLAIN: Final = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u2032", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
    **dict.fromkeys("\xa0\u2007\u2009\u202f", " "),
    **dict.fromkeys("\xad\u200b\u200c\u200d\u2060\ufeff", ""),
}
"""Characters of typography, and those of keyboards that look like them; nothing for invisible ones."""
_FORMS: Final[tuple[_Form, ...]] = ("NFC", "NFKC")


def _not_blank(value: str) -> str:
    if not trim(value):
        raise expected("a text that is more than a byte order mark, or every answer would pass")
    return value


Edge: TypeAlias = Annotated[Text, AfterValidator(_not_blank)]
"""The beginning or the end of an answer, without blanks and byte order marks around it."""


class TextCheck(Evaluator):
    """A check of the answer's text that takes microseconds."""

    is_graded = False

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        return self.check(context.candidate_answer)

    def check(self, answer: str) -> Score:
        """Judge a text."""
        raise NotImplementedError


class TextsCheck(TextCheck):
    """A check for several texts."""

    value: Items[Text]

    def summary(self) -> str:
        return ", ".join(self.value)


def shown(text: str) -> str:
    """Return a text in quotes, cut if it is long."""
    return f'"{beginning(text, _SHOWN)}"'


def shown_piece(piece: str, text: str) -> str:
    """Return a piece of a text in quotes, or the mask if it may be a part of a secret: the masker would not know it."""
    return shown(piece if piece in masked(text) else MASK)


def verdict(is_met: bool, hit: str, miss: str) -> Score:
    """Return 1 with a hit, or 0 with a miss."""
    return Score(1.0, hits=(hit,)) if is_met else Score(0.0, misses=(miss,))


Found: TypeAlias = Callable[[str, str], bool]
"""Whether a text is in another one, by the rule of a check."""


def is_in(word: str, answer: str) -> bool:
    """Whether a text is in the answer; case counts."""
    return word in answer


def is_in_folded(word: str, folded: str) -> bool:
    """Whether a text is in a case folded answer; case does not count."""
    return word.casefold() in folded


def presence(word: str, answer: str, found: Found) -> Score:
    """Score 1 if a text is in the answer."""
    return any_of([word], answer, found)


def _contained(word: str) -> str:
    """Say that a text is in the answer."""
    return f"contains {shown(word)}"


def _lacks(word: str, answer: str, found: Found) -> str:
    """Say that a text is not in the answer."""
    return f"lacks {shown(word)}{other_form(word, answer, found)}"


def other_form(wanted: str, answer: str, found: Found) -> str:
    """Return a note if a check misses only because of a character that people take for another one.

    All checks compare code points. People see no difference between "é" as one and as two code points, and hardly one
    between the apostrophes of keyboards and of typography.
    """
    if (wanted.isascii() and answer.isascii()) or found(wanted, answer):
        return ""
    for form in _FORMS:
        both = unicodedata.normalize(form, wanted), _normalized(form, answer)
        if both != (wanted, answer) and found(*both):
            return f"{FORM_DIFFERS}they match as {form})"
    return _other_characters(wanted, answer, found)


def _other_characters(wanted: str, answer: str, found: Found) -> str:
    """Name the characters without whose twins the text would not be found."""

    def matches(but: str = "") -> bool:
        table = str.maketrans({key: value for key, value in _PLAIN.items() if key != but})
        return found(wanted.translate(table), answer.translate(table))

    odd = sorted({*wanted, *answer} & _PLAIN.keys())
    if not odd or not matches():
        return ""
    said = (
        f"the {'check' if each in wanted else 'answer'} has U+{ord(each):04X} {unicodedata.name(each)}"
        + (f" instead of {shown(_PLAIN[each])}" if _PLAIN[each] else "")
        for each in [each for each in odd if not matches(each)] or odd
    )
    return f"{CHARACTER_DIFFERS}{', '.join(said)})"


@lru_cache(maxsize=4)
def _normalized(form: _Form, answer: str) -> str:
    """Return an answer in a Unicode form.

    Cached, because the answer may be long, and many checks of a case may miss.
    """
    return unicodedata.normalize(form, answer)


def any_of(words: Iterable[str], answer: str, found: Found) -> Score:
    """Score 1 if one of some texts is in the answer."""
    wanted = tuple(words)
    hits = tuple(_contained(word) for word in wanted if found(word, answer))
    return Score(1.0, hits=hits) if hits else Score(0.0, misses=_lacking(wanted, answer, found))


def share_of(words: Iterable[str], answer: str, found: Found) -> Score:
    """Score the share of some texts that is in the answer."""
    wanted = tuple(words)
    hits = tuple(word for word in wanted if found(word, answer))
    known = frozenset(hits)
    misses = _lacking([word for word in wanted if word not in known], answer, found)
    return Score(len(hits) / len(wanted), hits=tuple(map(_contained, hits)), misses=misses)


def _lacking(words: Iterable[str], answer: str, found: Found) -> tuple[str, ...]:
    return tuple(_lacks(word, answer, found) for word in words)
