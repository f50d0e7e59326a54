"""Lenient reading of the dates that people and models write, as calendar dates.

Read are ISO dates and times, `2025/01/15`, `Jan 15, 2025`, `15 January 2025`, `15-JAN-2025`, and `01/15/2025` or
`15-01-2025`, where the listed formats, and failing them the numbers, decide which of the two is the day.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final

_MONTH_NAMES: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTHS: Final = {
    **{name[:3]: number for number, name in enumerate(_MONTH_NAMES, start=1)},
    **{name: number for number, name in enumerate(_MONTH_NAMES, start=1)},
    "sept": 9,
}

_CLOCK: Final = r"(?:,?[ T]+\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[ap]m)?)?"
_YEAR_FIRST: Final = re.compile(rf"(\d{{4}})[-/](\d{{1,2}})[-/](\d{{1,2}}){_CLOCK}", re.ASCII | re.IGNORECASE)
_NUMERIC: Final = re.compile(rf"(\d{{1,2}})([-/])(\d{{1,2}})\2(\d{{4}}){_CLOCK}", re.ASCII | re.IGNORECASE)
_MONTH_FIRST: Final = re.compile(rf"([a-z]{{3,9}})\.? (\d{{1,2}}),? (\d{{4}}){_CLOCK}", re.ASCII | re.IGNORECASE)
_DAY_FIRST: Final = re.compile(rf"(\d{{1,2}})[- ]([a-z]{{3,9}})\.?,?[- ](\d{{4}}){_CLOCK}", re.ASCII | re.IGNORECASE)
_EUROPEAN: Final = re.compile(r"DD[-/]MM[-/]YYYY", re.IGNORECASE)
_AMERICAN: Final = re.compile(r"MM[-/]DD[-/]YYYY", re.IGNORECASE)


def parse_date(text: str, formats: Sequence[str] = ()) -> date | None:
    """Read a date; None when the text is none.

    Args:
        text: What was written. A time with an offset is taken to UTC first; other times do not matter.
        formats: Such as `DD/MM/YYYY`; only these and `MM/DD/YYYY`, with `/` or `-`, have an effect: they decide
            how `01/02/2025` is read.
    """
    text = re.sub(r"\s+", " ", text.strip())
    return _parse_iso(text) or _parse_year_first(text) or _parse_named(text) or _parse_numeric(text, formats)


def _parse_iso(text: str) -> date | None:
    if not re.match(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.date() if moment.tzinfo is None else moment.astimezone(UTC).date()
    except (ValueError, OverflowError):
        return None


def _parse_year_first(text: str) -> date | None:
    found = _YEAR_FIRST.fullmatch(text)
    return _date(found[1], found[2], found[3]) if found else None


def _parse_named(text: str) -> date | None:
    if found := _MONTH_FIRST.fullmatch(text):
        month, day, year = found.groups()
    elif found := _DAY_FIRST.fullmatch(text):
        day, month, year = found.groups()
    else:
        return None
    return _date(year, _MONTHS.get(month.lower(), 0), day)


def _parse_numeric(text: str, formats: Sequence[str]) -> date | None:
    found = _NUMERIC.fullmatch(text)
    if not found:
        return None
    first, _, second, year = found.groups()
    american, european = _date(year, first, second), _date(year, second, first)
    return european or american if _only_european(formats) else american or european


def _only_european(formats: Sequence[str]) -> bool:
    names = [name.strip() for name in formats]
    return any(map(_EUROPEAN.fullmatch, names)) and not any(map(_AMERICAN.fullmatch, names))


def _date(year: str | int, month: str | int, day: str | int) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None
