"""Renders the report. Jinja2 escapes every text, so that no text of a model becomes markup."""

import base64
import gzip
import hashlib
import html
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pytest_agentv.model.base import Json, JsonObject, counted
from pytest_agentv.reports.failure import Start
from pytest_agentv.reports.figures import bounds, case_name, format_score, known_part, percent
from pytest_agentv.reports.html import headline as overview
from pytest_agentv.reports.html.cases import (
    STATUSES,
    Case,
    PastRun,
    cases_of,
    dollars,
    duration,
    filter_link,
    in_order,
    judgements_of,
    past_of_cases,
    past_runs,
    spelled,
    when_of,
)
from pytest_agentv.reports.html.headline import figures, headline, reasons, reasons_of
from pytest_agentv.reports.html.opened import Gallery, detail_of
from pytest_agentv.reports.judged_cases import groups_of, is_graded, measure_of, values_of
from pytest_agentv.reports.summary import BIN_LABELS, extremes, score_figures, score_statistics
from pytest_agentv.reports.verdict import PassRate, pass_rate_of
from pytest_agentv.reports.view import RunView
from pytest_agentv.runtime.files import write_atomically
from pytest_agentv.stats.intervals import mean_interval

# The plots of a report.

Plot: TypeAlias = dict[str, Any]
"""What a template needs to draw a plot, or a part of it. Lengths are in percent of an axis or of the height."""

# The axes of plots: map values to positions, and choose ticks.


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps a share to percent of the width."""

    low: float
    ticks: tuple[tuple[float, str], ...]

    @classmethod
    def percents(cls, lowest: float) -> "Axis":
        """Return an axis from the tenth below the lowest share to 100 %."""
        low = min(0.9, max(0.0, math.floor((lowest - 0.02) * 10) / 10))
        step = 1 if low >= 0.6 else 2 if low >= 0.2 else 5
        first = math.ceil(low * 10 / step) * step
        marks = [tenth / 10 for tenth in range(first, 11, step)]
        return cls(low, tuple((round(100 * (m - low) / (1 - low), 2), f"{m * 100:.0f} %") for m in marks))

    def at(self, share: float) -> float:
        return round(100 * (share - self.low) / (1 - self.low), 2)


def log_ticks(low: float, high: float, say: Callable[[float], str]) -> tuple[tuple[float, str], ...]:
    """Return at most four ticks of a logarithmic axis, or its ends if no round number is between them."""
    values = [m * 10.0**e for e in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
    inside = [value for value in values if low <= math.log10(value) <= high] or [10**low, 10**high]
    inside = inside[:: max(1, math.ceil(len(inside) / 4))]
    return tuple((round(100 * (math.log10(value) - low) / (high - low), 1), say(value)) for value in inside)


# Compares pass rates by tag or by file.

MOST_ROWS: Final = 12


def tag_plot(cases: Sequence[Case], run: RunView) -> Plot | None:
    """Return the pass rates by tag, lowest first; None if no case has a tag."""
    members: dict[str, list[Case]] = {}
    for case in cases:
        for tag in dict.fromkeys(case.judged.tags) if case.judged.scores else ():
            members.setdefault(tag, []).append(case)
    return _rate_plot(members, run, lambda tag: filter_link(tag=tag))


def file_plot(cases: Sequence[Case], run: RunView) -> Plot | None:
    """Return the pass rates by file, lowest first; None if there is only one file."""
    members: dict[str, list[Case]] = {}
    for case in cases:
        if case.judged.scores:
            members.setdefault(case.file, []).append(case)
    return _rate_plot(members, run, lambda file: filter_link(file=file)) if len(members) > 1 else None


def _rate_plot(members: Mapping[str, Sequence[Case]], run: RunView, link: Callable[[str], str]) -> Plot | None:
    overall = run.statistics.rate if run.statistics else None
    if not members or overall is None:
        return None
    rates = {name: rate for name, group in members.items() if (rate := pass_rate_of([c.judged for c in group]))}
    worst = sorted(rates, key=lambda name: (rates[name].mean, name))[:MOST_ROWS]
    before = {name: _before(members[name], run) for name in worst}
    shown = [rates[name] for name in worst]
    lowest = [rate.mean if rate.low is None else rate.low for rate in shown]
    axis = Axis.percents(min([*lowest, overall.mean, *(value for value in before.values() if value is not None)]))
    rows = tuple(_row(name, link(name), rates[name], before[name], axis) for name in worst)
    return {"rows": rows, "ticks": axis.ticks, "overall": axis.at(overall.mean), "left_out": len(rates) - len(worst)}


def _before(cases: Sequence[Case], run: RunView) -> float | None:
    """Return the mean pass rate that the baseline had for some cases."""
    comparison = run.statistics.comparison if run.statistics else None
    if comparison is None:
        return None
    old = {pair.new.label: pair.old for pair in comparison.pairing.pairs}
    values = values_of([old[case.key] for case in cases if case.key in old])
    return math.fsum(values) / len(values) if values else None


def _row(name: str, link: str, rate: PassRate, before: float | None, axis: Axis) -> Plot:
    is_known = rate.low is not None and rate.high is not None
    return {
        "name": name,
        "link": link,
        "at": axis.at(rate.mean),
        "low": None if rate.low is None else axis.at(rate.low),
        "high": None if rate.high is None else axis.at(rate.high),
        "before": None if before is None else axis.at(before),
        "text": percent(rate.mean),
        "count": f"of {rate.n:,}",
        "interval": bounds(rate.low or 0.0, rate.high or 0.0) if is_known else "",
        "was": "" if before is None else percent(before),
    }


# Plots the score against the cost or the time of a case.

WIDTH: Final = 240
HEIGHT: Final = 150
_CELLS: Final = 24
"""The number of cells along each side of the grid in which pale dots are counted."""


def trade_plots(cases: Sequence[Case]) -> tuple[Plot, ...]:
    """Return score against cost and against time, if costs are known."""
    axes: tuple[tuple[str, Callable[[Case], float | None], Callable[[float], str]], ...] = (
        ("cost of a case", lambda case: case.cost, dollars),
        ("time of the target", lambda case: case.duration_ms, duration),
    )
    found = [_trade_plot(title, cases, of, say) for title, of, say in axes]
    return tuple(filter(None, found)) if found[0] is not None else ()


def _trade_plot(
    title: str, cases: Sequence[Case], of: Callable[[Case], float | None], say: Callable[[float], str]
) -> Plot | None:
    known = [
        (case, value) for case in cases if case.status != "error" and (value := of(case)) is not None and value > 0
    ]
    if len(known) < 2:
        return None
    logs = [math.log10(value) for _, value in known]
    low, high = min(logs) - 0.05, max(logs) + 0.05
    dots: list[Plot] = []
    typical: list[Plot] = []
    for series, target in enumerate(sorted({case.target for case in cases})):
        mine = [(case, (math.log10(value) - low) / (high - low)) for case, value in known if case.target == target]
        if not mine:
            continue
        dots += _grid(mine, series)
        at = math.fsum(x for _, x in mine) / len(mine)
        judged = [case.judged for case, _ in mine]
        estimate = mean_interval([case.score for case, _ in mine], groups_of(judged), graded=is_graded(judged))
        interval = estimate.interval
        typical.append(
            {
                "target": target,
                "series": series % 3,
                "x": round(at * WIDTH, 1),
                "y": _height(estimate.mean),
                "low": None if interval is None else _height(interval.low),
                "high": None if interval is None else _height(interval.high),
                "cost": say(10 ** (low + at * (high - low))),
                "score": f"{estimate.mean:.2f}",
                "interval": "" if interval is None else f"{interval.low:.2f} to {interval.high:.2f}",
            }
        )
    return {"title": title, "dots": dots, "typical": typical, "ticks": log_ticks(low, high, say)}


def _grid(cases: Sequence[tuple[Case, float]], series: int) -> list[Plot]:
    """Return one dot for each cell with cases, so that many cases need only some hundred dots."""
    cells = Counter((round(x * _CELLS), round(case.score * _CELLS)) for case, x in cases)
    most = max(cells.values())
    return [
        {
            "x": round(x / _CELLS * WIDTH, 1),
            "y": _height(y / _CELLS),
            "size": round(1.4 + 4 * math.sqrt(n / most), 1),
            "series": series % 3,
        }
        for (x, y), n in sorted(cells.items())
    ]


def _height(score: float) -> float:
    return round(HEIGHT * (1 - score), 1)


# The scores of each evaluator.

BINS: Final = 10
_MOST_ROWS: Final = 12


def histograms(cases: Sequence[Case]) -> tuple[Plot, ...]:
    """Return the scores of each kind or name of evaluators that judged, the most used first."""
    scores: dict[tuple[str, str], list[float]] = {}
    names: dict[tuple[str, str], set[str]] = {}
    partial: set[tuple[str, str]] = set()
    for case in cases:
        answers = [each for answer in case.answers if answer.result for each in judgements_of(answer.result)]
        for each in answers or case.judgements:
            if each.depth == 0 and not each.result.error:
                key = (each.kind, each.result.type)
                scores.setdefault(key, []).append(each.score)
                names.setdefault(key, set()).add(each.name)
                if len(case.marks) > 1 and not answers:
                    partial.add(key)
    thresholds = {case.judged.threshold for case in cases if case.judgements}
    threshold = thresholds.pop() if len(thresholds) == 1 else None
    ordered = sorted(scores.items(), key=lambda entry: -len(entry[1]))
    return tuple(
        {**_histogram(*key, names[key], found, threshold), "is_partial": key in partial}
        for key, found in ordered[:_MOST_ROWS]
    )


def _histogram(name: str, kind: str, names: Collection[str], scores: Sequence[float], threshold: float | None) -> Plot:
    bins = Counter(min(BINS - 1, int(min(1, max(0, score)) * BINS + 1e-9)) for score in scores)
    counts = tuple(bins[number] for number in range(BINS))
    top = math.sqrt(max(counts))
    low = sum(score < threshold - 1e-9 for score in scores) if threshold is not None else 0
    below = f", {low:,} of {len(scores):,} below" if threshold is not None else f" of {counted(len(scores), 'score')}"
    return {
        "name": name,
        "kind": kind,
        "link": filter_link(evaluator=next(iter(names))) if len(names) == 1 else "",
        "heights": tuple(round(math.sqrt(count) / top, 3) for count in counts),
        "counts": counts,
        "threshold": threshold,
        "text": f"mean {math.fsum(scores) / len(scores):.2f}{below}",
    }


def history_plot(runs: Sequence[PastRun]) -> Plot | None:
    """Return the runs in order; None if there is only one."""
    if len(runs) < 2:
        return None
    lows = [run.rate.mean if run.rate.low is None else run.rate.low for run in runs]
    axis = Axis.percents(min(lows))
    most = max(run.costs.cost_usd for run in runs) or 1.0
    step = 100 / len(runs)
    points: list[Plot] = []
    for number, run in enumerate(runs):
        rate, low, high = run.rate.mean, run.rate.low, run.rate.high
        cost = "cost not known" if run.costs.calls else "from the cache"
        if run.costs.cost is not None:
            cost = f"{dollars(run.costs.cost)}{known_part(run.costs.cost_known, run.costs)}"
        points.append(
            {
                "x": round(step * (number + 0.5), 2),
                "y": axis.at(rate),
                "low": None if low is None else axis.at(low),
                "high": None if high is None else axis.at(high),
                "bar": round(100 * run.costs.cost_usd / most, 1),
                "when": run.when,
                "name": run.name,
                "rate": percent(rate),
                "interval": "" if low is None or high is None else bounds(low, high),
                "cost": cost,
            }
        )
    return {"points": points, "ticks": axis.ticks}


CHUNK: Final = 50
"""The number of cases in a block. Only the block of an opened case is unpacked."""

_PLACES: Final = 4
STATIC_ROWS: Final = 40
"""The number of worst cases that can be read without scripts."""

_SCRIPTS: Final = ("texts.js", "words.js", "state.js", "list.js", "messages.js", "timing.js", "case.js", "start.js")
_PACKAGE: Final = "pytest_agentv.reports.html"

_BUTTONS: Final = (("fail", "✕ Failed"), ("error", "! Errors"), ("pass", "✓ Passed"), ("scored", "○ Scored"))


def write_report(path: Path, run: RunView, earlier: Sequence[RunView] = (), start: Start | None = None) -> int:
    """Write a report and return its size in bytes. Raises `FileError` if it cannot be written."""
    text = report_text(run, earlier, start)
    write_atomically(path, text)
    return len(text.encode())


def report_text(run: RunView, earlier: Sequence[RunView] = (), start: Start | None = None) -> str:
    """Return the page of a run.

    Args:
        run: As `reading.compared` returns it.
        earlier: Further runs, for the history.
        start: How the run was started; None: unknown.
    """
    statistics, base = run.statistics, run.base
    assert statistics is not None
    cases = cases_of(run)
    runs = in_order([*earlier, *([base] if base else []), run])
    style, script = _asset("report.css"), "".join(map(_asset, _SCRIPTS))
    verdict = headline(cases, run)
    share = f"{percent(statistics.rate.mean)} " if statistics.rate is not None else ""
    gallery = Gallery()
    data = list(blocks(cases, past_of_cases(runs), gallery, start))
    environment = Environment(
        loader=PackageLoader(_PACKAGE, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    text = environment.get_template(
        "report.html"
    ).render(
        policy=_policy(script, style, has_images=gallery.is_used),
        style=Markup(style),  # noqa: S704 - our own template
        script=Markup(script),  # noqa: S704 - our own template
        title=f"{verdict.sign} {share}– agentv report",
        run=run,
        when=when_of(run),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        base=base,
        cases=cases,
        shown=cases[:STATIC_ROWS],
        headline=verdict,
        figures=figures(cases, run),
        firsts=overview.firsts(cases),
        broken=sum(case.is_broken for case in cases),
        also=list(overview.also(run)),
        targets=overview.target_rows(cases),
        reasons=overview.reasons(cases),
        tags=tag_plot(cases, run),
        files=file_plot(cases, run),
        histograms=histograms(cases),
        trades=trade_plots(cases),
        history=history_plot(past_runs(runs)),
        scores=dict(_score_rows(run)),
        counts=_counts(cases),
        measure=measure_of(run.cases),
        all_pass=all(case.status == "pass" for case in cases),
        blocks=data,
    )
    return text.encode("utf-8", "replace").decode("utf-8")


def _score_rows(run: RunView) -> Iterator[tuple[str, str]]:
    """Yield the statistics of the scores, each with its name.

    Source: eval-cli-2026-01, "Statistics and distribution".
    """
    statistics = score_statistics(run.results)
    if statistics is None:
        return
    yield from ((figure.name, figure.value) for figure in score_figures(statistics))
    yield from ((f"Scores of {name}", f"{count:,}") for name, count in zip(BIN_LABELS, statistics.bins, strict=True))
    for title, results in zip(("Highest", "Lowest"), extremes(run.results), strict=True):
        yield title, ", ".join(f"{format_score(each.score)} {case_name(each)}" for each in results)


def _asset(name: str) -> str:
    return (files(_PACKAGE) / "assets" / name).read_text("utf-8")


def _finalize(value: object) -> object:
    """Make hidden characters visible in everything that templates print, except in our own markup."""
    return spelled(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _policy(script: str, style: str, *, has_images: bool) -> Markup:
    """Return the Content-Security-Policy. It allows only our script and style, by hash, and images in this file."""
    images = "img-src data:; " if has_images else ""
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; {images}base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return Markup(html.escape(policy, quote=False))  # noqa: S704 - it holds only our own hashes


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _counts(cases: Sequence[Case]) -> list[tuple[str, str, int]]:
    """Return the buttons that filter by outcome."""
    found = [(key, label, sum(case.status == key for case in cases)) for key, label in _BUTTONS]
    flaky = ("flaky", "± Flaky", sum(case.is_flaky for case in cases))
    scored = found[3:] if found[3][2] else []
    return [("", "All", len(cases)), *found[:2], flaky, found[2], *scored]


# Packs the data of the cases: gzip, then base64, which cannot hold `</script>`.


def blocks(
    cases: Sequence[Case], history: Mapping[str, Sequence[JsonObject]], gallery: Gallery, start: Start | None
) -> Iterator[tuple[str, str]]:
    """Yield the list of the cases, then their details in blocks."""
    chunks = range(0, len(cases), CHUNK)
    yield ("index", _packed(index_of(cases) | {"chunk": CHUNK, "chunks": len(chunks)}))
    for number, first in enumerate(chunks):
        shown = cases[first : first + CHUNK]
        details = [detail_of(case, history.get(case.key, ()), gallery, start) for case in shown]
        yield f"d{number}", _packed(details)


def index_of(cases: Sequence[Case]) -> dict[str, Json]:
    """Return the data of the list: each name once, and a short row for each case."""
    files = _numbered(case.file for case in cases)
    tags = _numbered(tag for case in cases for tag in case.judged.tags)
    targets = _numbered(case.target for case in cases)
    evaluators = _numbered(each.name for case in cases for each in case.judgements if each.depth == 0)
    frequent = _numbered(reason.name for reason in reasons(cases))
    rows = [
        [
            case.id,
            case.key,
            files[case.file],
            [tags[tag] for tag in case.judged.tags],
            targets[case.target],
            STATUSES.index(case.status),
            round(case.score, _PLACES),
            case.judged.threshold,
            None if case.cost is None else round(case.cost, 6),
            None if case.duration_ms is None else round(case.duration_ms),
            case.marks,
            case.why,
            [evaluators[each.name] for each in case.low],
            "" if case.change is None else case.change.word,
            None if case.change is None or case.change.delta is None else round(case.change.delta, _PLACES),
            [frequent[name] for name in reasons_of(case) if name in frequent],
        ]
        for case in cases
    ]
    names = {"files": files, "tags": tags, "targets": targets, "evaluators": evaluators, "reasons": frequent}
    return {key: list(found) for key, found in names.items()} | {"rows": rows}


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Return names by number, sorted."""
    return {name: number for number, name in enumerate(sorted(set(names)))}


def _packed(value: list[JsonObject] | dict[str, Json]) -> str:
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:  # other tools write NaN and Infinity, which browsers refuse
        text = json.dumps(json.loads(json.dumps(value), parse_constant=lambda _: None), separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 7, mtime=0)).decode()
