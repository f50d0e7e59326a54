"""`word`: a word, or several in a row, is in the answer."""

import re
import unicodedata
from functools import lru_cache
from typing import Final

from pydantic import Field

from pytest_agentv.evaluators.kinds.text.check import TextCheck, presence
from pytest_agentv.models.kind import Text
from pytest_agentv.models.scores import Score

_OF_EMOJI: Final = "\ufe0e\ufe0f"
"""Variation selectors, which choose how a character is drawn."""
_CURRENCY: Final = r"$\xa2-\xa5\u20a0-\u20cf"
_CODE: Final = "(?:eur|usd|gbp|chf|jpy|cny|inr|aud|cad|nzd|sek|nok|dkk|pln|czk|huf|brl|mxn|zar|krw|sgd|hkd|ils)"
"""Currencies whose codes stand before amounts, case folded."""
_MARKS: Final = rf"[*_`\"'\u2018-\u201e\xab\xbb\\{_CURRENCY}]*"
_MINUS: Final = re.compile(
    rf"(?:^|(?<![0-9])[^\S\n]|\n(?=[*_`\"'a-z{_CURRENCY}])|[(\[{{=:|,;<>]){_MARKS}(?:[a-z]{{1,3}}[{_CURRENCY}]{_MARKS})?"
    rf"(?P<sign>[-\u2010\u2011\u2212])(?![0-9.,]*\s?%)(?:(?:[a-z]{{0,3}}[{_CURRENCY}]|{_CODE})\ ?)?(?=[0-9])"
)
"""The sign of a negative number, which may be marked, as in **-30**, or quoted, or beside a currency, as in US$-30.

It is none in a range, at the beginning of a line, where lists are, or in -30 %.
"""
_UNSPACED: Final = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    r"\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""Letters that stand beside other words without a space: of Thai, Lao, Burmese, Khmer, Chinese, Japanese, Korean."""
_FIRST: Final = "[1-9][0-9]{0,2}"
_GROUPS: Final = r"(?:\ [0-9]{3}){0,3}"
_SPACED: Final = rf"{_FIRST}{_GROUPS}\ 0[0-9]{{2}}{_GROUPS}"
_SURE: Final = rf"""(?<![0-9]\ )(?!(?<=\+)[0-9]+(?:\ [0-9]{{3}}){{2}})(?:
    (?:{_FIRST}{_GROUPS}\ 000|[1-9][0-9]?{_GROUPS}\ 000{_GROUPS})(?:[.,][0-9]+)?
    |{_SPACED}(?:[.,][0-9]{{1,2}}|(?=\ ?(?:[{_CURRENCY}]|(?:{_CODE}|euros?|dollars?)\b)))
    |(?<=[{_CURRENCY}]){_SPACED}
)(?!\ [0-9]|\.\w)"""
"""Groups with blanks that are one number: 30 000, 30 050,5 or 30 050 euros. Others may be ids or a phone number."""
_BYTE: Final = "(?:1[0-9]{2}|2[0-4][0-9]|25[0-5])"
_NUMBER: Final = re.compile(
    rf"""(?=[0-9.])(?:(?<![^\W{_UNSPACED}])|(?<=\b{_CODE}))(?<![0-9]\.)(?:
    # 30.000,00. Four groups may be an IP address.
    (?![0-9]{{1,3}}(?:\.{_BYTE}){{3}}(?!\.?[0-9])){_FIRST}(?:\.[0-9]{{3}})+(?:,[0-9]+(?![.,]?[0-9]))?(?!\.?[0-9])
    # 30.5 and .5. A comma behind separates them from another number.
    |(?:[0-9]+|(?<![\w.:/]))\.[0-9]+(?!\.?[0-9])
    # 30,000.00 and 30'000.00
    |(?<![0-9],)(?:
        (?!0[0-9])[0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]+)?
        |{_FIRST}(?:['\u2019\xa0\u2009\u202f][0-9]{{3}})+(?:[.,][0-9]+)?
        |{_SURE}
    )(?![.,]?[0-9])
    )""",
    re.VERBOSE,
)
"""A number with a decimal point, or with commas, points, apostrophes or blanks between thousands.

Dates and versions have more points. "1,5" may be two numbers, and so may "30 500". 000 is no number by itself, and no
number of thousands begins with 0, as in the ids 001,002. Where a text may be one number or several, words are found.
"""
_BEGIN: Final = rf"(?:(?<![^\W{_UNSPACED}])|(?<=(?<!\w)_)|(?<=(?<!\w)__))"
_END: Final = rf"(?:(?![^\W{_UNSPACED}])|(?=__?(?!\w)))"
"""The borders of words. Underscores around words are those of Markdown."""
_NO_CENTS: Final = re.compile(r"\.00?$")
"""The end of a number that is the same without it: 30.00. With three zeros it may be thirty thousand in German."""


class Word(TextCheck):
    """A word is in the answer, and not only a part of a word or number: `30` is not in "130", "30.5 euros" or "-30".

    A comma or a blank between two numbers may separate them, so that `30` is in "30,50" and "30 500", but not in
    "30.000,00" or "30 000". Use `regex` for decimal commas.

    Chinese, Japanese, Korean and Thai letters need no space beside a word: `120` is in "120元".
    """

    kind = "word"
    examples = ({"answer": "It costs 30 euros.", "assert": [{"word": "30"}, {"not-word": "euro"}]},)

    value: Text = Field(description="a word, or several in a row (case-insensitive)", examples=["30 euros"])

    def check(self, answer: str) -> Score:
        return presence(self.value, answer.casefold(), has_word)


def has_word(word: str, folded: str) -> bool:
    """Whether a text, case folded, has a word at word boundaries. Any white space may be between its parts."""
    spans = [found.span() for found in _pattern(word).finditer(folded)]
    within = _places_within_numbers(folded) if spans and re.search("[0-9]", word) else frozenset()
    return any(within.isdisjoint(span) and not _is_part(folded, *span) for span in spans)


def _places_within_numbers(text: str) -> frozenset[int]:
    """Return the positions where no word begins or ends, so that `5` is not found in 1.5. It is found in 5.00."""
    places: set[int] = set()
    for found in _NUMBER.finditer(text):
        cents = _NO_CENTS.search(found[0])
        whole = {found.start() + cents.start()} if cents else set()
        places |= set(range(found.start() + 1, found.end())) - whole
    for found in _MINUS.finditer(text):
        places |= set(range(found.end("sign"), found.end() + 1))
    return frozenset(places)


def _is_part(text: str, start: int, end: int) -> bool:
    """Whether a word continues with combining marks, which `re` takes for its end."""
    before = start
    while before > 0 and _is_mark(text[before - 1]):
        before -= 1
    begins_within = 0 < before < start and _is_letter(text[before - 1])
    return begins_within or (end < len(text) and _is_mark(text[end]) and _is_letter(text[end - 1]))


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M") and character not in _OF_EMOJI


def _is_letter(character: str) -> bool:
    return character.isalnum() or _is_mark(character)


@lru_cache(maxsize=512)
def _pattern(word: str) -> re.Pattern[str]:
    parts = word.casefold().split()
    begin = "" if re.match(f"[{_UNSPACED}]", parts[0]) else _BEGIN
    end = "" if re.search(f"[{_UNSPACED}]$", parts[-1]) else _END
    return re.compile(begin + r"\s+".join(map(re.escape, parts)) + end)
