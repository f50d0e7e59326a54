"""Compares pass rates by tag or by file."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.reporting.html.cases import Case
from pytest_agentv.reporting.html.compared import Compared
from pytest_agentv.reporting.html.plots.axes import Axis
from pytest_agentv.reporting.html.texts import filter_link
from pytest_agentv.reporting.verdicts.cases import values_of
from pytest_agentv.reporting.verdicts.columns import bounds, percent
from pytest_agentv.reporting.verdicts.run_statistics import PassRate, pass_rate_of

MOST_ROWS: Final = 12


@record
class RateRow(Record):
    """A pass rate with its interval, in percent of the axis."""

    name: str
    link: str
    at: float
    low: float | None
    high: float | None
    before: float | None
    """The rate of the baseline."""
    text: str
    count: str
    interval: str
    """In percent; empty if unknown."""
    was: str
    """The pass rate of the baseline; empty without one."""


@record
class RatePlot(Record):
    """Pass rates in rows, on an axis of percent."""

    rows: tuple[RateRow, ...]
    ticks: tuple[tuple[float, str], ...]
    overall: float
    left_out: int


def tag_plot(cases: Sequence[Case], compared: Compared) -> RatePlot | None:
    """Return the pass rates by tag, lowest first; None if no case has a tag."""
    members: dict[str, list[Case]] = {}
    for case in cases:
        for tag in dict.fromkeys(case.judged.tags) if case.judged.scores else ():
            members.setdefault(tag, []).append(case)
    return _rate_plot(members, compared, lambda tag: filter_link(tag=tag))


def file_plot(cases: Sequence[Case], compared: Compared) -> RatePlot | None:
    """Return the pass rates by file, lowest first; None if there is only one file."""
    members: dict[str, list[Case]] = {}
    for case in cases:
        if case.judged.scores:
            members.setdefault(case.file, []).append(case)
    return _rate_plot(members, compared, lambda file: filter_link(file=file)) if len(members) > 1 else None


def _rate_plot(
    members: Mapping[str, Sequence[Case]], compared: Compared, link: Callable[[str], str]
) -> RatePlot | None:
    overall = compared.statistics.rate
    if not members or overall is None:
        return None
    rates = {name: rate for name, group in members.items() if (rate := pass_rate_of([c.judged for c in group]))}
    worst = sorted(rates, key=lambda name: (rates[name].mean, name))[:MOST_ROWS]
    before = {name: _before(members[name], compared) for name in worst}
    shown = [rates[name] for name in worst]
    lowest = [rate.mean if rate.low is None else rate.low for rate in shown]
    axis = Axis.percents(min([*lowest, overall.mean, *(value for value in before.values() if value is not None)]))
    rows = tuple(_row(name, link(name), rates[name], before[name], axis) for name in worst)
    return RatePlot(rows, axis.ticks, axis.at(overall.mean), len(rates) - len(worst))


def _row(name: str, link: str, rate: PassRate, before: float | None, axis: Axis) -> RateRow:
    is_known = rate.low is not None and rate.high is not None
    return RateRow(
        name=name,
        link=link,
        at=axis.at(rate.mean),
        low=None if rate.low is None else axis.at(rate.low),
        high=None if rate.high is None else axis.at(rate.high),
        before=None if before is None else axis.at(before),
        text=percent(rate.mean),
        count=f"of {rate.n:,}",
        interval=bounds(rate.low or 0.0, rate.high or 0.0) if is_known else "",
        was="" if before is None else percent(before),
    )


def _before(cases: Sequence[Case], compared: Compared) -> float | None:
    """Return the mean pass rate that the baseline had for some cases."""
    if compared.comparison is None:
        return None
    old = {(pair.new.name, pair.new.target): pair.old for pair in compared.comparison.pairing.pairs}
    keys = [(case.judged.name, case.judged.target) for case in cases]
    values = values_of([old[key] for key in keys if key in old])
    return math.fsum(values) / len(values) if values else None
