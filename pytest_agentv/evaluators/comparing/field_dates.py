"""Reads dates in the formats of people and models, as calendar dates.

Reads ISO dates and times, `2025/01/15`, `Jan 15th, 2025`, `15 January 2025`, `15-JAN-2025`, dates of mails, and
`01/15/2025`, `15-01-2025`, `15.01.2025` or `1/15/25`. For the last four, the listed formats decide which number is the
day, or else the numbers themselves; between dots the day is first. A weekday before a date is ignored. A month alone
(`2025-01`, `January 2025`) is its first day. A date in a listed format is read as the format says.
"""

import re
from collections.abc import Sequence
from datetime import date, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from pytest_agentv.evaluators.comparing.date_formats import CLOCK, date_of, read_by_formats
from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record

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


@record
class WrittenDate(Record):
    """A date as it is written."""

    day: date
    """The calendar date as written."""
    moment: datetime | None = None
    """The moment, of a date with a time and an offset."""

    def day_where(self, other: "WrittenDate") -> date:
        """Return the calendar date at this moment by the offset of another date; as written if either has none."""
        if self.moment is None or other.moment is None:
            return self.day
        try:
            return self.moment.astimezone(other.moment.tzinfo).date()
        except OverflowError:  # in the year 1 or 9999
            return self.day


def parse_date(text: str, formats: Sequence[str] = ()) -> WrittenDate | None:
    """Read a date; None when the text is none.

    Args:
        text: What was written.
        formats: Such as `DD/MM/YYYY`, `d.m.yy` or `%m-%d-%Y`. They are tried first. If they disagree, or none fits,
            those of a day and a month in numbers decide how `01/02/2025` is read.
    """
    text = _ORDINAL.sub("", re.sub(r"\s+", " ", text.strip()))
    if weekday := _WEEKDAY.match(text):
        text = text[weekday.end() :]
    day = read_by_formats(text, formats)
    moment = _parse_iso(text) or _parse_mail(text)
    if moment and day in (None, moment.date()):
        return WrittenDate(moment.date(), moment if moment.tzinfo else None)
    if day:
        return WrittenDate(day)
    for parse in (_parse_year_first, _parse_named, _parse_month):
        if day := parse(text):
            return WrittenDate(day)
    numeric = _parse_numeric(text, formats)
    return None if numeric is None else WrittenDate(numeric)


def _parse_iso(text: str) -> datetime | None:
    if not re.match(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        return None
    try:
        return datetime.fromisoformat(_OFFSET.sub(lambda found: found[1] or "Z", text))
    except ValueError:
        return None


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


def _parse_mail(text: str) -> datetime | None:
    if not _MAIL.fullmatch(text):
        return None
    try:
        return parsedate_to_datetime(text)
    except ValueError:
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
    return european or american if _is_day_first(mark, formats) else american or european


def _is_day_first(mark: str, formats: Sequence[str]) -> bool:
    """Whether the day is before the month. Formats with the same mark count first, and the others without them."""
    names = [name.strip() for name in formats]
    european = {found[1] for name in names if (found := _EUROPEAN.fullmatch(name))}
    american = {found[1] for name in names if (found := _AMERICAN.fullmatch(name))}
    if mark in european | american:
        return mark not in american
    return (mark == "." or bool(european)) and not american
