"""Reads dates in the formats of people and models, as calendar dates.

Reads ISO dates and times, `2025/01/15`, `Jan 15th, 2025`, `15 January 2025`, `15-JAN-2025`, dates of mails, and
`01/15/2025`, `15-01-2025`, `15.01.2025` or `1/15/25`. For the last four, the listed formats decide which number is the
day. If they do not, the numbers themselves do; between dots the day is first. A weekday before a date is ignored. A
month alone (`2025-01`, `January 2025`) is its first day. A date in a listed format is read as the format says.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from pytest_agentv.evaluators.comparing.date_formats import CLOCK, date_of, read_by_formats

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
