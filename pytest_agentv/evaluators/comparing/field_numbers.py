"""Reads the number of a value: itself, or the one that a text begins with."""

import math
import re
from typing import Final

from pytest_agentv.models.base import Json, is_number

_BLANK: Final = r"[\s\xa0\u2000-\u200a\u202f]"
_FRACTION: Final = (
    rf"{_BLANK}*(?:[\xbc-\xbe\u2150-\u215f\u2189]|[/\u2044]{_BLANK}*\d|(?<!\d)\d+{_BLANK}*[/\u2044]{_BLANK}*\d)"
)
"""The rest of a fraction: of "3/4", "1 1/2" and "1½"."""
_RAISED: Final = r"[\xb2\xb3\xb9\u2074-\u2079\u207b]"
_POWER: Final = rf"(?:{_BLANK}*[*x\xb7\xd7\u22c5]{_BLANK}*10)?{_BLANK}*(?:{_RAISED}|(?:\^|\*\*)[({{]?[-+\u2212]?\d)"
"""The rest of "1.2 × 10^6", and of 10²."""
_NUMBER: Final = re.compile(
    r"[+-]?(?:Infinity|(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
    rf"(?![.,:'\u2019-]?\d|[eE][+-]?\d|{_BLANK}\d{{3}}(?!\d)|{_FRACTION}|{_POWER})",
    re.ASCII,
)
"""A number with a decimal point, and perhaps commas between thousands. "1,5", "1 999", dates and powers are none."""
_LARGEST: Final = 1e300
"""Beyond it, the difference of two whole numbers may be none that a float can hold."""
_MOST_DIGITS: Final = 300
"""A longer number is beyond `_LARGEST`, and Python refuses to read thousands of digits."""
_WORDS: Final = {
    2: "hundred 百",
    3: "thousand k 千 천",
    4: "万 萬 만",
    5: "lakh",
    6: "million mio mn m",
    7: "crore",
    8: "亿 億 억",
    9: "billion mrd bn b",
    12: "trillion tn t 兆",
}
"""Words by the number of zeros that they add."""
_ZEROS: Final = {word: zeros for zeros, words in _WORDS.items() for word in words.split()}
_SCALE: Final = re.compile(
    r"(?:(?<=\d)(?P<letter>[kKMBT])|[\s-]*(?P<word>(?i:hundred|thousand|lakh|crore|(?:m|b|tr)illion|mio|mrd|[mbt]n))s?)"
    r"(?![^\W\d_])|\s*(?P<sign>[百千천万萬만亿億억兆])"
)
"""A word such as "million". A letter is one only beside the digits: "300 K" are kelvins, and "5m" are metres."""
_MORE: Final = re.compile(r"\s*\d")
_TO: Final = r"(?:[-\u2010-\u2015\u2212]>?|[~\uff5e\u301c\u81f3\u5230\u2026\u2192]|\.{2,}|(?i:(?:up\s+)?to|or|and)\b)"
_ABOUT: Final = r"(?:(?i:about|almost|approximately|around|at\s+most|even|maybe|nearly|perhaps|roughly|up\s+to)\s+)?"
_OTHER_END: Final = re.compile(rf"\s*{_TO}\s*{_ABOUT}[^\w\s]?\d")
"""The rest of "2 to 3 million", where the scale counts for both ends, of "5k-10k", and of "3 and 1/2"."""
_BEHIND_UNIT: Final = re.compile(rf"\s*(?<![A-Za-z](?=[A-Za-z])){_TO}\s*{_ABOUT}[^\w\s]?\d[\d.,]*")
"""The rest of "2 km to 3 km", without the second unit."""
_LONGEST: Final = 40
"""How many characters a unit and the other end of the range may have."""


def parse_number(value: Json) -> float | None:
    """Return a number, or the one that a text begins with ("10.9 USD", "2 million"); None for any other value.

    A whole number keeps all its digits. One that is too large for a float is infinite.
    """
    if isinstance(value, str):
        return _parse(value.strip())
    return _sized(value) if is_number(value) else None


def _parse(text: str) -> float | None:
    found = _NUMBER.match(text)
    if found is None:
        return None
    digits = found[0].replace(",", "")
    zeros, end = _scaled(text, found.end())
    if _OTHER_END.match(text, end) or _has_unit_twice(text, end):
        return None
    if zeros and (not digits[-1].isdigit() or "e" in digits.lower() or _MORE.match(text, end)):
        return None  # nobody writes "1e3 million", and "2 million 300 thousand" has two numbers
    if digits.lstrip("+-").isdigit() and len(digits) < _MOST_DIGITS:
        return _sized(int(digits) * 10**zeros)
    return float(f"{digits}e{zeros}" if zeros else digits)


def _scaled(text: str, end: int) -> tuple[int, int]:
    """Return how many zeros the words behind a number add, and where they end."""
    zeros = 0
    while scale := _SCALE.match(text, end):
        zeros, end = zeros + _ZEROS[str(scale[scale.lastgroup or 0]).lower()], scale.end()
    return zeros, end


def _has_unit_twice(text: str, end: int) -> bool:
    """Whether a number is the first end of a range such as "1 day to 3 days". Other units may be of other things."""
    for found in _BEHIND_UNIT.finditer(text, end, end + _LONGEST):
        unit = text[end : found.start()].strip()
        if any(map(str.isdigit, unit)):
            return False
        _, behind = _scaled(text, found.end())
        if unit and re.match(rf"\s*{re.escape(unit)}(?:e?s)?(?![A-Za-z])", text[behind:], re.IGNORECASE):
            return True
    return False


def _sized(number: float) -> float:
    """Return a number: a whole one as it is, unless it is too large to be compared."""
    try:
        size = float(number)
    except OverflowError:
        return math.inf
    return number if abs(size) < _LARGEST else size
