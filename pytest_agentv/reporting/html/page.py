"""Renders the report. Jinja2 escapes every text, so that no text of a model becomes markup."""

import base64
import hashlib
import html
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pytest_agentv.models.base import Record
from pytest_agentv.models.options.defaults import DEFAULT_MARGIN
from pytest_agentv.models.records import record
from pytest_agentv.reporting.endings import AS_JUDGED, Ending
from pytest_agentv.reporting.failing.rerun import Start
from pytest_agentv.reporting.html import overview
from pytest_agentv.reporting.html.cases import SCORED, Case, cases_of
from pytest_agentv.reporting.html.compared import Compared, compare
from pytest_agentv.reporting.html.figures import figures
from pytest_agentv.reporting.html.headline import Headline, headline
from pytest_agentv.reporting.html.history import in_order, past_of_cases, past_runs, when_of
from pytest_agentv.reporting.html.opened.commands import Commands
from pytest_agentv.reporting.html.opened.gallery import Gallery
from pytest_agentv.reporting.html.packing import blocks
from pytest_agentv.reporting.html.plots.histograms import histograms
from pytest_agentv.reporting.html.plots.rates import file_plot, tag_plot
from pytest_agentv.reporting.html.plots.runs import history_plot
from pytest_agentv.reporting.html.plots.trades import trade_plots
from pytest_agentv.reporting.html.reading import Run
from pytest_agentv.reporting.html.texts import spelled
from pytest_agentv.reporting.verdicts.cases import measure_of
from pytest_agentv.reporting.verdicts.columns import percent
from pytest_agentv.runtime.files import write_atomically

STATIC_ROWS: Final = 40
"""The number of worst cases that can be read without scripts."""

_SCRIPTS: Final = ("texts.js", "words.js", "state.js", "list.js", "messages.js", "timing.js", "case.js", "start.js")
_PACKAGE: Final = "pytest_agentv.reporting.html"


@record
class ReportInput(Record):
    """The input of a report."""

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
    """Return the report as HTML."""
    base = None if given.base is None or _is_dry(given.run) or _is_dry(given.base) else given.base
    compared = compare(
        given.run, base, margin=given.margin, is_confirming=given.is_confirming, skipped=given.ending.skipped
    )
    cases = cases_of(given.run, compared)
    runs = in_order([*given.earlier, *([base] if base else []), given.run])
    style, script = _asset("report.css"), "".join(map(_asset, _SCRIPTS))
    verdict = headline(cases, compared, given.ending)
    gallery = Gallery()
    data = list(blocks(cases, past_of_cases(runs), gallery, Commands(cases, given.start)))
    text = (
        _environment()
        .get_template("report.html")
        .render(
            policy=_policy(script, style, has_images=gallery.is_used),
            style=Markup(style),  # noqa: S704 - our own template
            script=Markup(script),  # noqa: S704 - our own template
            title=_title(compared, verdict),
            run=given.run,
            when=when_of(given.run),
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            base=base,
            cases=cases,
            shown=cases[:STATIC_ROWS],
            headline=verdict,
            figures=figures(cases, compared, given.run.earlier),
            firsts=overview.firsts(cases),
            broken=sum(case.is_broken for case in cases),
            also=list(overview.also(compared)),
            targets=overview.target_rows(cases, given.run.earlier),
            reasons=overview.reasons(cases),
            compared=compared,
            **_plots(cases, compared, runs),
            counts=_counts(cases),
            measure=measure_of(given.run.cases),
            all_pass=all(case.status == "pass" for case in cases),
            blocks=data,
        )
    )
    return text.encode("utf-8", "replace").decode("utf-8")


def _plots(cases: Sequence[Case], compared: Compared, runs: Sequence[Run]) -> dict[str, object]:
    """Return the plots of a report, by their names in its template."""
    return {
        "tags": tag_plot(cases, compared),
        "files": file_plot(cases, compared),
        "histograms": histograms(cases),
        "trades": trade_plots(cases),
        "history": history_plot(past_runs(runs)),
    }


def _is_dry(run: Run) -> bool:
    """Whether a run judged nothing, so that nothing can be compared with it."""
    return any("dry_run" in case.flags for case in run.cases)


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader(_PACKAGE, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )


def _finalize(value: object) -> object:
    """Make hidden characters visible in everything that templates print, except in our own markup."""
    return spelled(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _asset(name: str) -> str:
    return (files(_PACKAGE) / "assets" / name).read_text("utf-8")


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


def _title(compared: Compared, verdict: Headline) -> str:
    rate = compared.statistics.rate
    share = f"{percent(rate.mean)} " if rate is not None else ""
    return f"{verdict.sign} {share}– agentv report"


def _counts(cases: Sequence[Case]) -> list[tuple[str, str, int]]:
    """Return the buttons that filter by outcome."""
    found = [(key, label, sum(case.status == key for case in cases)) for key, label in _BUTTONS]
    flaky = ("flaky", "± Flaky", sum(case.is_flaky for case in cases))
    scored = found[3:] if found[3][2] else []
    return [("", "All", len(cases)), *found[:2], flaky, found[2], *scored]


_BUTTONS: Final = (("fail", "✕ Failed"), ("error", "! Errors"), ("pass", "✓ Passed"), (SCORED, "○ Scored"))
