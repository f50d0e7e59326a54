"""Formats numbers and names for the report."""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, urlencode

from pytest_agentv.reporting.escaping import shortened
from pytest_agentv.reporting.figures import format_cost

_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that move the cursor, change the direction of text, or are invisible."""

_HOUR: Final = 3_600_000
_MINUTE: Final = 60_000
_SECOND: Final = 1_000


def spelled(text: str) -> str:
    """Return a text in which hidden characters are spelled out, as `[U+202E]`."""
    return _HIDDEN.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)


def points(share: float) -> str:
    """Return `+0.1`, in percentage points, with a true minus sign."""
    return f"{100 * share:+z.1f}".replace("-", "\N{MINUS SIGN}")


def dollars(amount: float | None) -> str:
    """Return an amount as the summary of the run writes it; empty if unknown."""
    return "" if amount is None else format_cost(amount)


def duration(milliseconds: float | None) -> str:
    """Return `250 ms`, `3.7 s`, `2.5 min` or `1.2 h`; empty if unknown."""
    if milliseconds is None:
        return ""
    if round(milliseconds) < _SECOND:
        return f"{milliseconds:.0f} ms"
    if round(milliseconds / _SECOND, 1) < _MINUTE / _SECOND:
        return f"{milliseconds / _SECOND:.1f} s"
    if round(milliseconds / _MINUTE, 1) < _HOUR / _MINUTE:
        return f"{milliseconds / _MINUTE:.1f} min"
    return f"{milliseconds / _HOUR:.1f} h"


def listed(parts: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def first_sentence(text: str, length: int = 160) -> str:
    """Return the first sentence of a text on one line, without its full stop."""
    line = " ".join(text.split())
    sentence = re.split(r"(?<=[.!?])\s", line, maxsplit=1)[0].rstrip(".")
    return shortened(sentence, length, "…")


def case_link(key: str) -> str:
    """Return the link to a case within the report. It is the same in every run."""
    return f"#case={quote(key, safe='', errors='replace')}"


def filter_link(**filters: str) -> str:
    """Return the link to the cases that match some filters."""
    return f"#{urlencode(filters, errors='replace')}"
