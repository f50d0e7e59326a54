"""Plots several runs in the order of time."""

from collections.abc import Sequence

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.reporting.html.history import PastRun
from pytest_agentv.reporting.html.plots.axes import Axis
from pytest_agentv.reporting.html.texts import dollars
from pytest_agentv.reporting.verdicts.columns import bounds, percent


@record
class HistoryPoint(Record):
    """A run in the plot, in percent of the axes."""

    x: float
    y: float
    low: float | None
    high: float | None
    bar: float
    """The height of its cost."""
    when: str
    name: str
    rate: str
    interval: str
    cost: str


@record
class HistoryPlot(Record):
    """Pass rate and cost of several runs."""

    points: tuple[HistoryPoint, ...]
    ticks: tuple[tuple[float, str], ...]


def history_plot(runs: Sequence[PastRun]) -> HistoryPlot | None:
    """Return the runs in order; None if there is only one."""
    if len(runs) < 2:
        return None
    lows = [run.rate.mean if run.rate.low is None else run.rate.low for run in runs]
    axis = Axis.percents(min(lows))
    most = max(run.cost or 0.0 for run in runs) or 1.0
    step = 100 / len(runs)
    points = [_point(run, round(step * (number + 0.5), 2), axis, most) for number, run in enumerate(runs)]
    return HistoryPlot(tuple(points), axis.ticks)


def _point(run: PastRun, x: float, axis: Axis, most: float) -> HistoryPoint:
    rate, low, high = run.rate.mean, run.rate.low, run.rate.high
    return HistoryPoint(
        x=x,
        y=axis.at(rate),
        low=None if low is None else axis.at(low),
        high=None if high is None else axis.at(high),
        bar=round(100 * (run.cost or 0.0) / most, 1),
        when=run.when,
        name=run.name,
        rate=percent(rate),
        interval="" if low is None or high is None else bounds(low, high),
        cost=_cost(run),
    )


def _cost(run: PastRun) -> str:
    """Return the cost of a run. If it is not known for all cases, add for how many it is."""
    if run.cost is None:
        return "cost not known" if run.cases else "from the cache"
    part = f", known for {run.cost_cases:,} of {run.cases:,}" if run.cost_cases < run.cases else ""
    return f"{dollars(run.cost)}{part}"
