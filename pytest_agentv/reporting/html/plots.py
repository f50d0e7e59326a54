"""What the plots show. Labels are HTML, so that they stay readable on a narrow screen; only marks are SVG."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.reporting.html.cases import Case
from pytest_agentv.reporting.html.compared import Compared
from pytest_agentv.reporting.html.history import PastRun
from pytest_agentv.reporting.html.overview import names_of_targets
from pytest_agentv.reporting.html.texts import bounds, counted, dollars, duration, filter_link, percent
from pytest_agentv.reporting.verdicts.cases import groups_of
from pytest_agentv.reporting.verdicts.run_statistics import pass_rate_of
from pytest_agentv.statistics.intervals import mean_interval

MOST_ROWS: Final = 12
BINS: Final = 10
WIDTH: Final = 240
HEIGHT: Final = 150
_CELLS: Final = 24
"""Cells of the grid that pale dots are counted in, along each side."""


@record
class RateRow(Record):
    """A pass rate with its interval; numbers are percent of the axis."""

    name: str
    link: str
    at: float
    low: float | None
    high: float | None
    before: float | None
    """Of the baseline."""
    text: str
    count: str


@record
class RatePlot(Record):
    """Pass rates over each other, on an axis of percent."""

    rows: tuple[RateRow, ...]
    ticks: tuple[tuple[float, str], ...]
    overall: float
    left_out: int


@record
class Histogram(Record):
    """The scores of an evaluator in ten bins."""

    name: str
    kind: str
    link: str
    heights: tuple[float, ...]
    """By square root, 0 to 1, or a bin at 1 hides all others."""
    counts: tuple[int, ...]
    threshold: float | None
    text: str


@record
class Dot(Record):
    """A mark at a place of a plot, of a target by its number."""

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


@record
class HistoryPoint(Record):
    """A run in the row of runs; numbers are percent of the axes."""

    x: float
    y: float
    low: float | None
    high: float | None
    bar: float
    """Height of its cost."""
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


def tag_plot(cases: Sequence[Case], compared: Compared) -> RatePlot | None:
    """Return the pass rates by tag, the lowest first; None where no case has a tag."""
    members: dict[str, list[Case]] = {}
    for case in cases:
        for tag in dict.fromkeys(case.judged.tags) if case.judged.scores else ():
            members.setdefault(tag, []).append(case)
    return _rate_plot(members, compared, lambda tag: filter_link(tag=tag))


def file_plot(cases: Sequence[Case], compared: Compared) -> RatePlot | None:
    """Return the pass rates by file, the lowest first; None where there is one file."""
    members: dict[str, list[Case]] = {}
    for case in cases:
        if case.judged.scores:
            members.setdefault(case.file, []).append(case)
    return _rate_plot(members, compared, lambda file: filter_link(file=file)) if len(members) > 1 else None


def histograms(cases: Sequence[Case]) -> tuple[Histogram, ...]:
    """Return the scores of each evaluator that judged, the most used first."""
    scores: dict[tuple[str, str], list[float]] = {}
    for case in cases:
        for each in case.judgements:
            if each.depth == 0 and not each.error:
                scores.setdefault((each.name, each.type), []).append(each.score)
    thresholds = {case.judged.threshold for case in cases}
    threshold = thresholds.pop() if len(thresholds) == 1 else None
    ordered = sorted(scores.items(), key=lambda entry: -len(entry[1]))
    return tuple(_histogram(name, kind, found, threshold) for (name, kind), found in ordered[:MOST_ROWS])


def trade_plots(cases: Sequence[Case]) -> tuple[TradePlot, ...]:
    """Return score against cost, and score against time, as far as these are known."""
    axes: tuple[tuple[str, Callable[[Case], float | None], Callable[[float], str]], ...] = (
        ("cost of a case", lambda case: case.cost, dollars),
        ("time of a case", lambda case: case.duration_ms, duration),
    )
    return tuple(plot for title, of, say in axes if (plot := _trade_plot(title, cases, of, say)) is not None)


def history_plot(runs: Sequence[PastRun]) -> HistoryPlot | None:
    """Return the runs in their order; None where there is only one."""
    if len(runs) < 2:
        return None
    lows = [run.rate.mean if run.rate.low is None else run.rate.low for run in runs]
    axis = _Axis.percents(min(lows))
    most = max(run.cost for run in runs) or 1.0
    step = 100 / len(runs)
    return HistoryPlot(
        tuple(
            HistoryPoint(
                x=round(step * (number + 0.5), 2),
                y=axis.at(run.rate.mean),
                low=None if run.rate.low is None else axis.at(run.rate.low),
                high=None if run.rate.high is None else axis.at(run.rate.high),
                bar=round(100 * run.cost / most, 1),
                when=run.when,
                name=run.name,
                rate=percent(run.rate.mean),
                interval="" if run.rate.low is None or run.rate.high is None else bounds(run.rate.low, run.rate.high),
                cost=dollars(run.cost),
            )
            for number, run in enumerate(runs)
        ),
        axis.ticks,
    )


@record
class _Axis:
    """From a share to percent of the width."""

    low: float
    ticks: tuple[tuple[float, str], ...]

    @classmethod
    def percents(cls, lowest: float) -> "_Axis":
        """Return an axis from the tenth below the lowest share to 100 %."""
        low = min(0.9, max(0.0, math.floor((lowest - 0.02) * 10) / 10))
        step = 1 if low >= 0.6 else 2 if low >= 0.2 else 5
        first = math.ceil(low * 10 / step) * step
        marks = [tenth / 10 for tenth in range(first, 11, step)]
        return cls(low, tuple((round(100 * (m - low) / (1 - low), 2), f"{m * 100:.0f} %") for m in marks))

    def at(self, share: float) -> float:
        return round(100 * (share - self.low) / (1 - self.low), 2)


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
    axis = _Axis.percents(min([*lowest, overall.mean, *(value for value in before.values() if value is not None)]))
    rows = []
    for name, rate in zip(worst, shown, strict=True):
        old = before[name]
        rows.append(
            RateRow(
                name=name,
                link=link(name),
                at=axis.at(rate.mean),
                low=None if rate.low is None else axis.at(rate.low),
                high=None if rate.high is None else axis.at(rate.high),
                before=None if old is None else axis.at(old),
                text=percent(rate.mean),
                count=f"of {rate.n:,}",
            )
        )
    return RatePlot(tuple(rows), axis.ticks, axis.at(overall.mean), len(rates) - len(worst))


def _before(cases: Sequence[Case], compared: Compared) -> float | None:
    """Return the mean pass rate that the baseline had for some cases."""
    if compared.comparison is None:
        return None
    old = {(pair.new.name, pair.new.target): pair.old.value for pair in compared.comparison.pairing.pairs}
    values = [old[key] for case in cases if (key := (case.judged.name, case.judged.target)) in old]
    return math.fsum(values) / len(values) if values else None


def _histogram(name: str, kind: str, scores: Sequence[float], threshold: float | None) -> Histogram:
    bins = Counter(min(BINS - 1, int(score * BINS + 1e-9)) for score in scores)
    counts = tuple(bins[number] for number in range(BINS))
    top = math.sqrt(max(counts))
    low = sum(score < threshold - 1e-9 for score in scores) if threshold is not None else 0
    below = f", {low:,} of {len(scores):,} below" if threshold is not None else f" of {counted(len(scores), 'case')}"
    return Histogram(
        name=name,
        kind=kind,
        link=filter_link(evaluator=name),
        heights=tuple(round(math.sqrt(count) / top, 3) for count in counts),
        counts=counts,
        threshold=threshold,
        text=f"mean {math.fsum(scores) / len(scores):.2f}{below}",
    )


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
        estimate = mean_interval([case.score for case, _ in mine], groups_of([case.judged for case, _ in mine]))
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
    return TradePlot(title, tuple(dots), tuple(typical), _log_ticks(low, high, say))


def _grid(cases: Sequence[tuple[Case, float]], series: int) -> list[Dot]:
    """Return one dot for each cell that holds cases, so that any number of cases makes some hundred dots."""
    cells = Counter((round(x * _CELLS), round(case.score * _CELLS)) for case, x in cases)
    most = max(cells.values())
    return [
        Dot(round(x / _CELLS * WIDTH, 1), _height(y / _CELLS), round(1.4 + 4 * math.sqrt(n / most), 1), series % 3)
        for (x, y), n in sorted(cells.items())
    ]


def _height(score: float) -> float:
    return round(HEIGHT * (1 - score), 1)


def _log_ticks(low: float, high: float, say: Callable[[float], str]) -> tuple[tuple[float, str], ...]:
    """Return at most four ticks of a logarithmic axis; its ends where no round number lies between."""
    values = [m * 10.0**e for e in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
    inside = [value for value in values if low <= math.log10(value) <= high] or [10**low, 10**high]
    inside = inside[:: max(1, math.ceil(len(inside) / 4))]
    return tuple((round(100 * (math.log10(value) - low) / (high - low), 1), say(value)) for value in inside)
