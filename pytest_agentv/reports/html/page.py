"""Renders the report. Jinja2 escapes every text, so that no text of a model becomes markup."""

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pytest_agentv.model.base import Json, JsonObject, Record
from pytest_agentv.model.options import DEFAULT_MARGIN
from pytest_agentv.reports.columns import percent
from pytest_agentv.reports.failure import Start
from pytest_agentv.reports.gates import AS_JUDGED, Ending
from pytest_agentv.reports.html import headline as overview
from pytest_agentv.reports.html.cases import (
    SCORED,
    STATUSES,
    Case,
    Past,
    cases_of,
    compare,
    in_order,
    past_of_cases,
    past_runs,
    when_of,
)
from pytest_agentv.reports.html.headline import figures, headline, reasons, reasons_of
from pytest_agentv.reports.html.opened import Commands, Gallery, detail_of
from pytest_agentv.reports.html.plots import file_plot, histograms, history_plot, tag_plot, trade_plots
from pytest_agentv.reports.html.reading import Run, spelled
from pytest_agentv.reports.judged_cases import measure_of
from pytest_agentv.runtime.files import write_atomically

CHUNK: Final = 50
"""The number of cases in a block. Only the block of an opened case is unpacked."""

_PLACES: Final = 4
STATIC_ROWS: Final = 40
"""The number of worst cases that can be read without scripts."""

_SCRIPTS: Final = ("texts.js", "words.js", "state.js", "list.js", "messages.js", "timing.js", "case.js", "start.js")
_PACKAGE: Final = "pytest_agentv.reports.html"

_BUTTONS: Final = (("fail", "✕ Failed"), ("error", "! Errors"), ("pass", "✓ Passed"), (SCORED, "○ Scored"))


@dataclass(frozen=True, slots=True)
class ReportInput(Record):
    run: Run
    base: Run | None = None
    """The run to compare with."""
    earlier: tuple[Run, ...] = ()
    """Further runs, for the history."""
    margin: float = DEFAULT_MARGIN
    is_confirming: bool | None = None
    ending: Ending = AS_JUDGED
    """How the run ended beyond its results."""
    start: Start | None = None
    """How the run was started; None: unknown."""


def write_report(path: Path, given: ReportInput) -> int:
    """Write a report and return its size in bytes. Raises `FileError` if it cannot be written."""
    text = report_text(given)
    write_atomically(path, text)
    return len(text.encode())


def report_text(given: ReportInput) -> str:
    base = None if given.base is None or _is_dry(given.run) or _is_dry(given.base) else given.base
    compared = compare(
        given.run, base, margin=given.margin, is_confirming=given.is_confirming, skipped=given.ending.skipped
    )
    cases = cases_of(given.run, compared)
    runs = in_order([*given.earlier, *([base] if base else []), given.run])
    style, script = _asset("report.css"), "".join(map(_asset, _SCRIPTS))
    verdict = headline(cases, compared, given.ending)
    rate = compared.statistics.rate
    share = f"{percent(rate.mean)} " if rate is not None else ""
    gallery = Gallery()
    data = list(blocks(cases, past_of_cases(runs), gallery, Commands(cases, given.start)))
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
        run=given.run,
        when=when_of(given.run),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        base=base,
        cases=cases,
        shown=cases[:STATIC_ROWS],
        headline=verdict,
        figures=figures(cases, compared),
        firsts=overview.firsts(cases),
        broken=sum(case.is_broken for case in cases),
        also=list(overview.also(compared)),
        targets=overview.target_rows(cases),
        reasons=overview.reasons(cases),
        compared=compared,
        tags=tag_plot(cases, compared),
        files=file_plot(cases, compared),
        histograms=histograms(cases),
        trades=trade_plots(cases),
        history=history_plot(past_runs(runs)),
        counts=_counts(cases),
        measure=measure_of(given.run.cases),
        all_pass=all(case.status == "pass" for case in cases),
        blocks=data,
    )
    return text.encode("utf-8", "replace").decode("utf-8")


def _is_dry(run: Run) -> bool:
    """Whether a run judged nothing, so that nothing can be compared with it."""
    return any("dry_run" in case.flags for case in run.cases)


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


@dataclass(frozen=True, slots=True)
class Block(Record):
    """Data in the page, under an id."""

    id: str
    text: str


def blocks(
    cases: Sequence[Case], history: Mapping[str, Sequence[Past]], gallery: Gallery, commands: Commands
) -> Iterator[Block]:
    """Yield the list of the cases, then their details in blocks."""
    chunks = range(0, len(cases), CHUNK)
    yield Block("index", _packed(index_of(cases) | {"chunk": CHUNK, "chunks": len(chunks)}))
    for number, start in enumerate(chunks):
        shown = cases[start : start + CHUNK]
        details = [detail_of(case, history.get(case.key, ()), gallery, commands) for case in shown]
        yield Block(f"d{number}", _packed(details))


def index_of(cases: Sequence[Case]) -> dict[str, Json]:
    """Return the data of the list: each name once, and a short row for each case."""
    files = _Names(case.file for case in cases)
    tags = _Names(tag for case in cases for tag in case.judged.tags)
    targets = _Names(case.target for case in cases)
    evaluators = _Names(each.name for case in cases for each in case.judgements if each.depth == 0)
    frequent = _Names(reason.name for reason in reasons(cases))
    rows = [
        [
            case.id,
            case.key,
            files.number(case.file),
            [tags.number(tag) for tag in case.judged.tags],
            targets.number(case.target),
            STATUSES.index(case.status),
            round(case.score, _PLACES),
            case.judged.threshold,
            None if case.cost is None else round(case.cost, 6),
            None if case.duration_ms is None else round(case.duration_ms),
            case.marks,
            case.why,
            [evaluators.number(each.name) for each in case.low],
            "" if case.change is None else case.change.word,
            None if case.change is None or case.change.delta is None else round(case.change.delta, _PLACES),
            [frequent.number(name) for name in reasons_of(case) if name in frequent.all],
        ]
        for case in cases
    ]
    names = {"files": files, "tags": tags, "targets": targets, "evaluators": evaluators, "reasons": frequent}
    return {key: found.all for key, found in names.items()} | {"rows": rows}


class _Names:
    """Names by number, sorted."""

    def __init__(self, names: Iterator[str]) -> None:
        self.all = sorted(set(names))
        self._numbers = {name: number for number, name in enumerate(self.all)}

    def number(self, name: str) -> int:
        return self._numbers[name]


def _packed(value: list[JsonObject] | dict[str, Json]) -> str:
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:  # other tools write NaN and Infinity, which browsers refuse
        text = json.dumps(json.loads(json.dumps(value), parse_constant=lambda _: None), separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 7, mtime=0)).decode()
