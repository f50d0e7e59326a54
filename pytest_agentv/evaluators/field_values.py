"""Reads the dates and numbers of fields, as people and models write them."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Final

from pytest_agentv.model.base import Json, is_number

# Reads dates in the formats that an eval lists, such as `DD/MM/YYYY`, `D MMM YY` or `%Y-%m-%d`.

KNOWN_PARTS: Final = "YYYY or YY, MMMM, MMM, MM or M, DD or D, and separators"
"""What a format may consist of, for messages. The spellings of strftime and others are read as well."""

_MONTH_NAMES: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTHS: Final = {
    **{name[:3]: number for number, name in enumerate(_MONTH_NAMES, start=1)},
    **{name: number for number, name in enumerate(_MONTH_NAMES, start=1)},
    "sept": 9,
}

CLOCK: Final = r"(?:,?[ T]+\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[ap]m)?(?: ?(?:UTC|GMT|Z))?)?"
"""A time behind a date, which does not matter."""

_WEEKDAY_FORMAT: Final = r"[Dd]{3,4}|[Ee]{3,4}|%[Aa]"
_YEAR: Final = r"%?[Yy]{1,4}"
_NAME: Final = r"[Mm]{3,4}|[Mm]on|MON|%[Bb]"
_MONTH: Final = r"(?:%-?)?[Mm]{1,2}"
_DAY: Final = r"[Dd]o|(?:%-?)?[Dd]{1,2}|%-?e"
_LITERAL: Final = r"\[[^\[\]]*\]|'[^']*'"
"""Words that stand in the date itself: `D [de] MMMM`, or `D 'de' MMMM`."""
_MARK: Final = r"[^0-9A-Za-z%]"
_LONE_MARK: Final = r"[^0-9A-Za-z%\[']|\[(?![^\[\]]*\])|'(?![^']*')"
"""A mark that begins no literal: a pattern with two ways to read a text can take long."""
_TIME: Final = r"[ T,'\[\]]+(?:(?:%-?)?[HhIK]{1,2}:[\s\S]*|%[TR])"
_SHORT_FORMS: Final = {"%F": "%Y-%m-%d", "%D": "%m/%d/%y"}
_PART: Final = re.compile(
    rf"(?P<weekday>{_WEEKDAY_FORMAT})|(?P<year>{_YEAR})|(?P<name>{_NAME})|(?P<day>{_DAY})|(?P<month>{_MONTH})"
    rf"|(?P<literal>{_LITERAL})|(?P<mark>{_MARK})"
)
_ANY: Final = r"[\s\S]*"
_OF_PARTS: Final = (
    rf"(?={_ANY}[Yy])(?={_ANY}(?:[Mm]|%[Bb]))"
    rf"(?:%-?[AaBbDdeMmYy]|[Dd]o|[Mm]on|MON|[DdEeMmYy]|{_LITERAL}|{_LONE_MARK})+(?:{_TIME})?$"
)
_WITH_OTHERS: Final = rf"(?={_ANY}(?:[Yy]{{2}}|%[Yy]))(?={_ANY}(?:[Mm]|%[Bb]))(?={_ANY}(?:[Dd]|%-?e))"
"""A year, a month and a day with other letters beside them: `YYYYMMDDTHHmmss`."""
_NAMED: Final = rf"\s*(?:%[FD](?:{_TIME})?|(?:ISO|iso)[ _-]?8601)\s*$"
FORMAT_SCHEMA: Final = {"type": "string", "pattern": rf"^(?:{_OF_PARTS}|{_WITH_OTHERS}|{_NAMED})"}
"""The JSON Schema of a format. It does not count the letters of a part, because such a pattern can take long."""
_FORMAT: Final = re.compile(FORMAT_SCHEMA["pattern"])


def is_date_format(written: str) -> bool:
    """Whether a text may be a format of dates: it fits the JSON Schema. Not all such formats can be read."""
    return _FORMAT.search(written) is not None


def read_by_formats(text: str, formats: Sequence[str]) -> date | None:
    """Return the date that listed formats make of a text; None if none fits, or several disagree.

    A format with a part that is not known is ignored, as in AgentV.
    """
    found = {day for written in formats if (day := _read(text, written)) is not None}
    return found.pop() if len(found) == 1 else None


def date_of(year: str | int, month: str | int, day: str | int) -> date | None:
    """Return a date; None if there is no such day. A year of two digits is one from 1950 to 2049."""
    if isinstance(year, str) and len(year) == 2:
        year = f"{'20' if year < '50' else '19'}{year}"
    try:
        return date(int(year), month_of(month), int(day))
    except ValueError:
        return None


def month_of(written: str | int) -> int:
    """Return the number of a month that is written as a number or as a name; 0 for another word."""
    is_name = isinstance(written, str) and not written.isdigit()
    return _MONTHS.get(str(written).lower(), 0) if is_name else int(written)


def _read(text: str, written: str) -> date | None:
    pattern = _pattern(written)
    found = pattern.fullmatch(text) if pattern else None
    if found is None:
        return None
    parts = found.groupdict()
    return date_of(parts["year"], parts["month"], parts.get("day", 1))


@lru_cache
def _pattern(written: str) -> re.Pattern[str] | None:
    """Return the pattern of the dates in a format; None if the format cannot be read."""
    text = re.sub(_TIME, "", " ".join(written.split()))
    text = _SHORT_FORMS.get(text, text)
    parts = list(_PART.finditer(text))
    counts = Counter("month" if part.lastgroup == "name" else part.lastgroup for part in parts)
    is_whole = sum(len(part[0]) for part in parts) == len(text)
    if not is_whole or counts["year"] != 1 or counts["month"] != 1 or counts["day"] > 1:
        return None
    return re.compile("".join(_part_patterns(parts)) + CLOCK, re.ASCII | re.IGNORECASE)


def _part_patterns(parts: Sequence[re.Match[str]]) -> Iterator[str]:
    parts = _without_weekday(parts)
    for index, part in enumerate(parts):
        beside = [*parts[max(0, index - 1) : index], *parts[index + 1 : index + 2]]
        yield _part_pattern(part, is_apart=all(each.lastgroup in ("mark", "literal") for each in beside))


def _without_weekday(parts: Sequence[re.Match[str]]) -> Sequence[re.Match[str]]:
    """Leave out a weekday at the beginning, with what separates it: it is cut off from dates, too."""
    if parts[0].lastgroup != "weekday":
        return parts
    first = next(index for index, part in enumerate(parts) if part.lastgroup not in ("weekday", "mark"))
    return parts[first:]


def _part_pattern(part: re.Match[str], *, is_apart: bool) -> str:
    """Return the pattern of a part. Beside a separator, `DD` may be one digit, as people write it."""
    written, letters = part[0], part[0].lstrip("%-")
    match part.lastgroup:
        case "year":
            width = 4 if written == "%Y" else 2 if written == "%y" else len(letters)
            return {4: r"(?P<year>\d{4})", 2: r"(?P<year>\d\d)"}.get(width, r"(?P<year>\d{4}|\d\d)")
        case "name":
            return r"(?P<month>[a-z]{3,9})\.?"
        case "month" | "day":
            is_padded = not is_apart and (len(letters) == 2 or written in ("%d", "%m"))
            return rf"(?P<{part.lastgroup}>\d{'{2}' if is_padded else '{1,2}'})"
        case "weekday":
            return "[a-z]{3,9}"
        case "literal":
            return re.escape(written[1:-1])
        case _:
            return re.escape(written)


# Reads dates in the formats of people and models, as calendar dates.
#
# Reads ISO dates and times, `2025/01/15`, `Jan 15th, 2025`, `15 January 2025`, `15-JAN-2025`, dates of mails, and
# `01/15/2025`, `15-01-2025`, `15.01.2025` or `1/15/25`. For the last four, the listed formats decide which number is
# the day. If they do not, the numbers themselves do; between dots the day is first. A weekday before a date is ignored.
# A month alone (`2025-01`, `January 2025`) is its first day. A date in a listed format is read as the format says.

_YEAR_FIRST: Final = re.compile(rf"(\d{{4}})[-/](\d{{1,2}})[-/](\d{{1,2}}){CLOCK}", re.ASCII | re.IGNORECASE)
_NUMERIC: Final = re.compile(rf"(\d{{1,2}})([-/.])(\d{{1,2}})\2(\d{{4}}|\d\d){CLOCK}", re.ASCII | re.IGNORECASE)
_MONTH_FIRST: Final = re.compile(rf"([a-z]{{3,9}})\.? (\d{{1,2}}),? (\d{{4}}){CLOCK}", re.ASCII | re.IGNORECASE)
_DAY_FIRST: Final = re.compile(rf"(\d{{1,2}})[- ]([a-z]{{3,9}})\.?,?[- ](\d{{4}}){CLOCK}", re.ASCII | re.IGNORECASE)
_YEAR_MONTH: Final = re.compile(r"(\d{4})-(\d{2})", re.ASCII)
_MONTH_YEAR: Final = re.compile(r"([a-z]{3,9})\.?,? (\d{4})", re.ASCII | re.IGNORECASE)
_WEEKDAY: Final = re.compile(r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,? ", re.IGNORECASE)
_MAIL: Final = re.compile(
    r"\d{1,2} [a-z]{3} \d{4} \d{2}:\d{2}(?::\d{2})? (?:GMT|UTC|[+-]\d{4})", re.ASCII | re.IGNORECASE
)
"""The dates of mails and HTTP headers (RFC 5322), without the weekday."""
_EUROPEAN: Final = re.compile(r"(?:%-?)?D{1,2}([-/.])(?:%-?)?M{1,2}\1%?Y{1,4}", re.IGNORECASE)
_AMERICAN: Final = re.compile(r"(?:%-?)?M{1,2}([-/.])(?:%-?)?D{1,2}\1%?Y{1,4}", re.IGNORECASE)
_OFFSET: Final = re.compile(r" (?:([+-]\d\d:?\d\d)|UTC|GMT)$", re.IGNORECASE)
_ORDINAL: Final = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b(?: of\b)?", re.IGNORECASE)


def parse_date(text: str, formats: Sequence[str] = ()) -> date | None:
    """Read a date; None when the text is none.

    Args:
        text: What was written. A time with an offset is taken to UTC first; other times do not matter.
        formats: Such as `DD/MM/YYYY`, `d.m.yy` or `%m-%d-%Y`. They are tried first. If they disagree, or none fits,
            those of a day and a month in numbers decide how `01/02/2025` is read.

    Source: agentv-formats, sample S4.
    """
    text = _ORDINAL.sub("", re.sub(r"\s+", " ", text.strip()))
    if weekday := _WEEKDAY.match(text):
        text = text[weekday.end() :]
    if found := read_by_formats(text, formats):
        return found
    for parse in (_parse_iso, _parse_year_first, _parse_mail, _parse_named, _parse_month):
        if found := parse(text):
            return found
    return _parse_numeric(text, formats)


def _parse_iso(text: str) -> date | None:
    if not re.match(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        return None
    try:
        return _day_of(datetime.fromisoformat(_OFFSET.sub(lambda found: found[1] or "Z", text)))
    except (ValueError, OverflowError):
        return None


def _day_of(moment: datetime) -> date:
    return moment.date() if moment.tzinfo is None else moment.astimezone(UTC).date()


def _parse_year_first(text: str) -> date | None:
    found = _YEAR_FIRST.fullmatch(text)
    return date_of(found[1], found[2], found[3]) if found else None


def _parse_named(text: str) -> date | None:
    if found := _MONTH_FIRST.fullmatch(text):
        month, day, year = found.groups()
    elif found := _DAY_FIRST.fullmatch(text):
        day, month, year = found.groups()
    else:
        return None
    return date_of(year, month, day)


def _parse_mail(text: str) -> date | None:
    if not _MAIL.fullmatch(text):
        return None
    try:
        return _day_of(parsedate_to_datetime(text))
    except (ValueError, OverflowError):
        return None


def _parse_month(text: str) -> date | None:
    if found := _YEAR_MONTH.fullmatch(text):
        return date_of(found[1], found[2], 1)
    found = _MONTH_YEAR.fullmatch(text)
    return date_of(found[2], found[1], 1) if found else None


def _parse_numeric(text: str, formats: Sequence[str]) -> date | None:
    found = _NUMERIC.fullmatch(text)
    if not found:
        return None
    first, mark, second, year = found.groups()
    american, european = date_of(year, first, second), date_of(year, second, first)
    is_european, is_american = _orders(mark, formats)
    if is_european != is_american:
        return european if is_european else american
    return european or american if mark == "." and not is_american else american or european


def _orders(mark: str, formats: Sequence[str]) -> tuple[bool, bool]:
    """Return whether the day is first in a format, and whether the month is.

    Formats with the same mark count, or else the others.
    """
    names = [name.strip() for name in formats]
    european = {found[1] for name in names if (found := _EUROPEAN.fullmatch(name))}
    american = {found[1] for name in names if (found := _AMERICAN.fullmatch(name))}
    if mark in european | american:
        return mark in european, mark in american
    return bool(european), bool(american)


# Reads the number of a value: itself, or the one that a text begins with.

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
