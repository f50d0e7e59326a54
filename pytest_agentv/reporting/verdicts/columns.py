"""Texts in columns: names, figures, lists that end in time, intervals as a drawing."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_agentv.reporting.escaping import on_one_line, visible
from pytest_agentv.reporting.summary import LineStyle, SummaryLine
from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.statistics.intervals import Interval

INDENT: Final = 15
_WIDTH: Final = 80
_LONGEST_NAME: Final = 40
_BAR: Final = 17
"""Columns between the brackets of a drawn interval."""


def interval_bar(interval: Interval, mean: float) -> str:
    """Draw an interval of differences: `o` is the mean, `|` no difference, which may be outside."""
    width = interval.high - interval.low
    zero = round(-interval.low / width * (_BAR - 1)) if width > 0 else 0
    inside = ["-"] * _BAR
    if 0 <= zero < _BAR:
        inside[zero] = "|"
    inside[round((mean - interval.low) / width * (_BAR - 1)) if width > 0 else 0] = "o"
    bar = f"[{''.join(inside)}]"
    if zero < 0:
        return f"|{' ' * min(3, -zero)}{bar}"
    return f"{bar}{' ' * min(3, zero - _BAR + 1)}|" if zero >= _BAR else bar


def short_list(texts: Sequence[str], *, verbose: bool, used: int = 0) -> str:
    """Return texts on one line of 80 columns, of which some are used, and how many more there are."""
    if verbose:
        return ", ".join(texts)
    line = ""
    for number, text in enumerate(texts, start=1):
        longer = f"{line}, {text}" if line else text
        rest = len(texts) - number
        more = f", ... {rest} more: --agentv-verbose" if rest else ""
        if line and used + len(longer) + len(more) > _WIDTH:
            return f"{line}, ... {rest + 1} more: --agentv-verbose"
        line = longer
    return line


def short_name(case: JudgedCase) -> str:
    """Return the id of a case, or the name of its item if that distinguishes it from others of the same id."""
    item, named = ((name or "").partition("::")[2] for name in (case.node_id, case.name))
    if item and named == f"{item}::{case.eval_id}":
        known = named
    else:
        known = item if case.eval_id and item.startswith(case.eval_id) else case.eval_id or case.name
    return on_one_line(visible(known), _LONGEST_NAME)


def wrapped(label: str, text: str, style: LineStyle = "plain", *, indent: int = INDENT) -> Iterator[SummaryLine]:
    """Yield a text behind its label, on as many lines as it takes."""
    lines = textwrap.wrap(text, _WIDTH - indent, break_long_words=False, break_on_hyphens=False) or [""]
    for number, line in enumerate(lines):
        yield SummaryLine(f"{label if number == 0 else '':{indent}}{line}".rstrip(), style)


def plain(text: str, *, indent: int = 0) -> Iterator[SummaryLine]:
    """Yield a line unchanged. The part that does not fit follows on lines of its own."""
    lines = [text]
    if len(text) > _WIDTH:
        cut = text.rindex(" ", 0, _WIDTH + 1)
        rest = textwrap.wrap(text[cut:].strip(), _WIDTH - indent, break_long_words=False, break_on_hyphens=False)
        lines = [text[:cut].rstrip(), *(f"{'':{indent}}{line}" for line in rest)]
    yield from map(SummaryLine, lines)


def percent(rate: float) -> str:
    """Return `89.2 %`."""
    return f"{rate * 100:.1f} %"


def bounds(low: float, high: float) -> str:
    """Return `86.8 to 91.2`, in percent."""
    return f"{low * 100:.1f} to {high * 100:.1f}"


def points(difference: float) -> str:
    return f"{difference * 100:+z.1f}"  # z: no minus before a zero
