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
    return HistoryPlot(
        tuple(
            HistoryPoint(
                x=round(step * (number + 0.5), 2),
                y=axis.at(run.rate.mean),
                low=None if run.rate.low is None else axis.at(run.rate.low),
                high=None if run.rate.high is None else axis.at(run.rate.high),
                bar=round(100 * (run.cost or 0.0) / most, 1),
                when=run.when,
                name=run.name,
                rate=percent(run.rate.mean),
                interval="" if run.rate.low is None or run.rate.high is None else bounds(run.rate.low, run.rate.high),
                cost=_cost(run),
            )
            for number, run in enumerate(runs)
        ),
        axis.ticks,
    )


def _cost(run: PastRun) -> str:
    """Return the cost of a run. If it is not known for all cases, add for how many it is."""
    if run.cost is None:
        return "cost not known" if run.cases else "from the cache"
    part = f", known for {run.cost_cases:,} of {run.cases:,}" if run.cost_cases < run.cases else ""
    return f"{dollars(run.cost)}{part}"
