"""Reads dates in the formats that an eval lists, such as `DD/MM/YYYY`, `D MMM YY` or `%Y-%m-%d`."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from functools import lru_cache
from typing import Final

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

_WEEKDAY: Final = r"[Dd]{3,4}|[Ee]{3,4}|%[Aa]"
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
    rf"(?P<weekday>{_WEEKDAY})|(?P<year>{_YEAR})|(?P<name>{_NAME})|(?P<day>{_DAY})|(?P<month>{_MONTH})"
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
