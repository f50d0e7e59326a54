"""Reads dates in the formats of people and models, as calendar dates.

Reads ISO dates and times, `2025/01/15`, `Jan 15th, 2025`, `15 January 2025`, `15-JAN-2025`, dates of mails, and
`01/15/2025`, `15-01-2025`, `15.01.2025` or `1/15/25`. For the last four, the listed formats decide which number is the
day, or else the numbers themselves; between dots the day is first. A weekday before a date is ignored. A month alone
(`2025-01`, `January 2025`) is its first day.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
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

_CLOCK: Final = r"(?:,?[ T]+\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[ap]m)?(?: ?(?:UTC|GMT|Z))?)?"
_YEAR_FIRST: Final = re.compile(rf"(\d{{4}})[-/](\d{{1,2}})[-/](\d{{1,2}}){_CLOCK}", re.ASCII | re.IGNORECASE)
_NUMERIC: Final = re.compile(rf"(\d{{1,2}})([-/.])(\d{{1,2}})\2(\d{{4}}|\d\d){_CLOCK}", re.ASCII | re.IGNORECASE)
_MONTH_FIRST: Final = re.compile(rf"([a-z]{{3,9}})\.? (\d{{1,2}}),? (\d{{4}}){_CLOCK}", re.ASCII | re.IGNORECASE)
_DAY_FIRST: Final = re.compile(rf"(\d{{1,2}})[- ]([a-z]{{3,9}})\.?,?[- ](\d{{4}}){_CLOCK}", re.ASCII | re.IGNORECASE)
_YEAR_MONTH: Final = re.compile(r"(\d{4})-(\d{2})", re.ASCII)
_MONTH_YEAR: Final = re.compile(r"([a-z]{3,9})\.?,? (\d{4})", re.ASCII | re.IGNORECASE)
_WEEKDAY: Final = re.compile(r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,? ", re.IGNORECASE)
_MAIL: Final = re.compile(
    r"\d{1,2} [a-z]{3} \d{4} \d{2}:\d{2}(?::\d{2})? (?:GMT|UTC|[+-]\d{4})", re.ASCII | re.IGNORECASE
)
"""The dates of mails and HTTP headers (RFC 5322), without the weekday."""
_EUROPEAN: Final = re.compile(r"%?D{1,2}([-/.])%?M{1,2}\1%?Y{1,4}", re.IGNORECASE)
_AMERICAN: Final = re.compile(r"%?M{1,2}([-/.])%?D{1,2}\1%?Y{1,4}", re.IGNORECASE)
_ORDINAL: Final = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b(?: of\b)?", re.IGNORECASE)


def parse_date(text: str, formats: Sequence[str] = ()) -> date | None:
    """Read a date; None when the text is none.

    Args:
        text: What was written. A time with an offset is taken to UTC first; other times do not matter.
        formats: Such as `DD/MM/YYYY`, `d.m.yy` or `%m-%d-%Y`. Only those of a day and a month in numbers have an
            effect: they decide how `01/02/2025` is read.
    """
    text = _ORDINAL.sub("", re.sub(r"\s+", " ", text.strip()))
    if weekday := _WEEKDAY.match(text):
        text = text[weekday.end() :]
    for parse in (_parse_iso, _parse_year_first, _parse_mail, _parse_named, _parse_month):
        if found := parse(text):
            return found
    return _parse_numeric(text, formats)


def _parse_iso(text: str) -> date | None:
    if not re.match(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        return None
    try:
        moment = datetime.fromisoformat(re.sub(r" (?=[+-]\d\d:?\d\d$)", "", text))
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


def _parse_mail(text: str) -> date | None:
    if not _MAIL.fullmatch(text):
        return None
    try:
        return parsedate_to_datetime(text).astimezone(UTC).date()
    except (ValueError, OverflowError):
        return None


def _parse_month(text: str) -> date | None:
    if found := _YEAR_MONTH.fullmatch(text):
        return _date(found[1], found[2], 1)
    found = _MONTH_YEAR.fullmatch(text)
    return _date(found[2], _MONTHS.get(found[1].lower(), 0), 1) if found else None


def _parse_numeric(text: str, formats: Sequence[str]) -> date | None:
    found = _NUMERIC.fullmatch(text)
    if not found:
        return None
    first, mark, second, year = found.groups()
    if len(year) == 2:
        year = f"{'20' if year < '50' else '19'}{year}"
    american, european = _date(year, first, second), _date(year, second, first)
    return european or american if _is_day_first(mark, formats) else american or european


def _is_day_first(mark: str, formats: Sequence[str]) -> bool:
    names = [name.strip() for name in formats]
    is_listed = mark == "." or any(map(_EUROPEAN.fullmatch, names))
    return is_listed and not any(map(_AMERICAN.fullmatch, names))


def _date(year: str | int, month: str | int, day: str | int) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None
