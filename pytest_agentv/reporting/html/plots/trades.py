"""Plots the score against the cost or the time of a case."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.reporting.html.cases import Case
from pytest_agentv.reporting.html.overview import names_of_targets
from pytest_agentv.reporting.html.plots.axes import log_ticks
from pytest_agentv.reporting.html.texts import dollars, duration
from pytest_agentv.reporting.verdicts.cases import groups_of, is_graded
from pytest_agentv.statistics.intervals import mean_interval

WIDTH: Final = 240
HEIGHT: Final = 150
_CELLS: Final = 24
"""The number of cells along each side of the grid in which pale dots are counted."""


@record
class Dot(Record):
    """A mark in a plot, with the number of its target."""

    x: float
    y: float
    size: float
    series: int


@record
class Typical(Record):
    """The typical case of a target."""

    target: str
    series: int
    x: float
    y: float
    low: float | None
    high: float | None
    cost: str
    score: str
    interval: str


@record
class TradePlot(Record):
    """Score against what a case takes, on a logarithmic axis."""

    title: str
    dots: tuple[Dot, ...]
    typical: tuple[Typical, ...]
    ticks: tuple[tuple[float, str], ...]


def trade_plots(cases: Sequence[Case]) -> tuple[TradePlot, ...]:
    """Return score against cost, and score against time, if these are known."""
    axes: tuple[tuple[str, Callable[[Case], float | None], Callable[[float], str]], ...] = (
        ("cost of a case", lambda case: case.cost, dollars),
        ("time of a case", lambda case: case.duration_ms, duration),
    )
    return tuple(plot for title, of, say in axes if (plot := _trade_plot(title, cases, of, say)) is not None)


def _trade_plot(
    title: str, cases: Sequence[Case], of: Callable[[Case], float | None], say: Callable[[float], str]
) -> TradePlot | None:
    known = [
        (case, value) for case in cases if case.status != "error" and (value := of(case)) is not None and value > 0
    ]
    if len(known) < 2:
        return None
    logs = [math.log10(value) for _, value in known]
    low, high = min(logs) - 0.05, max(logs) + 0.05
    dots: list[Dot] = []
    typical: list[Typical] = []
    for series, target in enumerate(names_of_targets(cases)):
        mine = [(case, (math.log10(value) - low) / (high - low)) for case, value in known if case.target == target]
        if not mine:
            continue
        dots += _grid(mine, series)
        at = math.fsum(x for _, x in mine) / len(mine)
        judged = [case.judged for case, _ in mine]
        estimate = mean_interval([case.score for case, _ in mine], groups_of(judged), graded=is_graded(judged))
        interval = estimate.interval
        typical.append(
            Typical(
                target=target,
                series=series % 3,
                x=round(at * WIDTH, 1),
                y=_height(estimate.mean),
                low=None if interval is None else _height(interval.low),
                high=None if interval is None else _height(interval.high),
                cost=say(10 ** (low + at * (high - low))),
                score=f"{estimate.mean:.2f}",
                interval="" if interval is None else f"{interval.low:.2f} to {interval.high:.2f}",
            )
        )
    return TradePlot(title, tuple(dots), tuple(typical), log_ticks(low, high, say))


def _grid(cases: Sequence[tuple[Case, float]], series: int) -> list[Dot]:
    """Return one dot for each cell with cases, so that many cases need only some hundred dots."""
    cells = Counter((round(x * _CELLS), round(case.score * _CELLS)) for case, x in cases)
    most = max(cells.values())
    return [
        Dot(round(x / _CELLS * WIDTH, 1), _height(y / _CELLS), round(1.4 + 4 * math.sqrt(n / most), 1), series % 3)
        for (x, y), n in sorted(cells.items())
    ]


def _height(score: float) -> float:
    return round(HEIGHT * (1 - score), 1)
