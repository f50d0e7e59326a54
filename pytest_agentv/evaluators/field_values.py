"""Reads the dates and numbers of fields."""

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final

from pytest_agentv.model.base import Json, is_number
from pytest_agentv.model.text import whole_number

KNOWN_PARTS: Final = "YYYY or YY, MMMM, MMM, MM or M, DD or D, and separators"
"""What a format may consist of, for messages. Those of `strptime` are read as well."""

_PART: Final = re.compile(r"y{4}|yy|m{1,4}|dd?", re.IGNORECASE)
_PARTS: Final = {"yyyy": "%Y", "yy": "%y", "mmmm": "%B", "mmm": "%b", "mm": "%m", "m": "%m", "dd": "%d", "d": "%d"}
_FIRST_OF_A_MONTH: Final = date(2024, 12, 1)


def is_date_format(written: str) -> bool:
    """Whether a format reads the date that it writes. Without a day, it is the first of the month."""
    form = _of_strptime(written)
    try:
        return datetime.strptime(_FIRST_OF_A_MONTH.strftime(form), form).date() == _FIRST_OF_A_MONTH
    except (ValueError, re.error):  # a part that is there twice makes a wrong pattern
        return False


def _of_strptime(written: str) -> str:
    return written if "%" in written else _PART.sub(lambda found: _PARTS[found[0].lower()], written)


def parse_date(text: str, formats: Sequence[str] = ()) -> date | None:
    """Return the date of a text in the first of some formats that fits, or in ISO 8601; None if there is none.

    A time with an offset is taken to UTC first; other times do not matter.
    """
    for form in (*map(_of_strptime, formats), None):
        try:
            moment = datetime.strptime(text.strip(), form) if form else datetime.fromisoformat(text.strip())
            return (moment.astimezone(UTC) if moment.tzinfo else moment).date()
        except (ValueError, OverflowError):
            continue
    return None


_CURRENCY: Final = r"(?:[A-Z]{3}|[$\xa2-\xa5\u20a0-\u20cf])"
_BESIDE: Final = re.compile(rf"^([+-]?){_CURRENCY}\s*|\s*(?:{_CURRENCY}|%)$")
"""The sign or the code of a currency, or a percent sign, beside a number."""
_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_LARGEST: Final = 1e300
"""Beyond it, the difference of two whole numbers may be none that a float can hold."""


def parse_number(value: Json) -> float | None:
    """Return a number, or that of a text such as `1,234.50`, `10.9 USD` or `5 %`; None for any other value.

    A whole number keeps all its digits. One that is too large for a float is infinite.
    """
    if isinstance(value, str):
        found = _NUMBER.fullmatch(_BESIDE.sub(r"\1", value.strip()))
        digits = found[0].replace(",", "") if found else ""
        value = found and (float(digits) if found[1] or found[2] else whole_number(digits))
    if not is_number(value):
        return None
    try:
        return value if abs(value) < _LARGEST else float(value)
    except OverflowError:
        return math.inf
