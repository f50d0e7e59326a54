"""Texts in columns: names, figures, lists that end in time."""

import textwrap
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pytest_agentv.reports.figures import LineStyle, SummaryLine, on_one_line, visible
from pytest_agentv.reports.judged_cases import CaseNames, JudgedCase

INDENT: Final = 15
_WIDTH: Final = 80
_LONGEST_NAME: Final = 40
_LONGEST_PLACE: Final = 60
_SLACK: Final = 1e-9


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


class Label(NamedTuple):
    """What may tell a case from others where it is listed."""

    file: str | None
    name: str
    """Its id, or the name of its item."""
    target: str | None


def short_names(labels: Collection[Label], cut: Callable[[str], str]) -> Mapping[Label, str]:
    """Return the names of cases, each with its file and its target where cases of the same name differ in these.

    `cut` shortens the name itself.
    """
    files: dict[str, set[str | None]] = defaultdict(set)
    targets: dict[tuple[str | None, str], set[str | None]] = defaultdict(set)
    for file, name, target in labels:
        files[name].add(file)
        targets[file, name].add(target)
    names: dict[Label, str] = {}
    for label in labels:
        shown = cut(label.name)
        if label.file is not None and len(files[label.name]) > 1:
            shown = f"{_place(label.file)}::{shown}"
        if label.target is not None and len(targets[label.file, label.name]) > 1:
            shown = f"{shown} ({_place(label.target)})"
        names[label] = shown
    return names


class ShortNames:
    """Short names for the cases of a run and of its baseline."""

    def __init__(self, cases: Iterable[JudgedCase]) -> None:
        known = list(cases)
        self._full = CaseNames(known)
        self._short = short_names({self._label(case) for case in known}, _short)

    def of(self, case: JudgedCase) -> str:
        return self._short[self._label(case)]

    def _label(self, case: JudgedCase) -> Label:
        name = self._full.without_target(case)
        file = f"{case.eval_file}::"
        is_in_file = case.eval_file is not None and name.startswith(file)
        return Label(case.eval_file if is_in_file else None, name.removeprefix(file), case.target)


def _short(name: str) -> str:
    return on_one_line(visible(name), _LONGEST_NAME)


def _place(text: str) -> str:
    return on_one_line(visible(text), _LONGEST_PLACE, "…")


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


def percent(rate: float, unlike: Sequence[float] = (0.0, 1.0)) -> str:
    """Return `89.2 %`, with as many more digits as it takes to differ from other rates: 2,099 of 2,100 are not all."""
    digits = 1
    others = [other for other in unlike if abs(rate - other) > _SLACK]
    while any(f"{rate * 100:.{digits}f}" == f"{other * 100:.{digits}f}" for other in others):
        digits += 1
    return f"{rate * 100:z.{digits}f} %"


def bounds(low: float, high: float) -> str:
    """Return `86.8 to 91.2`, in percent."""
    return f"{low * 100:.1f} to {high * 100:.1f}"


def points(difference: float) -> str:
    return f"{difference * 100:+z.1f}"  # z: no minus before a zero
