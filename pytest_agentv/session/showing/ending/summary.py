"""Prints the end of a run: the summary, the section on statistics, and what went wrong beside the cases."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pytest_agentv.errors import locate
from pytest_agentv.models.base import Record
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.records import record
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.reporting.summary import Outcomes, SummaryLine, summary_lines
from pytest_agentv.reporting.totals import waiting_hint
from pytest_agentv.session.compat import TerminalReporter
from pytest_agentv.session.recording.run_results import RunResults
from pytest_agentv.session.showing.item_outcomes import ItemOutcomes, lost_text

_MARKUP: Final[Mapping[str, Mapping[str, bool]]] = {
    "error": {"red": True, "bold": True},
    "fail": {"red": True},
    "pass": {"green": True},
    "warning": {"yellow": True},
    "heading": {"bold": True},
}


@record
class RunEnd(Record):
    """What the terminal is to say of a run."""

    run: RunResults
    results_path: Path
    options: RunOptions
    outcomes: ItemOutcomes
    expected_words: str
    elapsed_ms: float
    cpu_ms: float
    has_workers: bool
    """Whether the cases ran in other processes."""
    section: tuple[SummaryLine, ...] = ()
    """The section EVALUATION STATISTICS."""
    notes: tuple[str, ...] = ()
    report: Path | None = None
    """The HTML report, once it is written."""
    remarks: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    """The node ids of cases that crashed workers took with them."""
    write_errors: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    """Commands to GitHub, as they are to stand in the log."""


def write_end(terminal: TerminalReporter, end: RunEnd) -> None:
    """Print what is to be said of a run, below what pytest says of its items."""
    lines = summary_lines(
        end.run.results,
        results_path=end.results_path,
        dry_run=end.options.dry_run,
        elapsed_ms=end.elapsed_ms,
        earlier=end.run.earlier,
        outcomes=Outcomes(
            frozenset(end.outcomes.expected_failures), frozenset(end.outcomes.unexpected_passes), end.expected_words
        ),
        told=end.outcomes.told if terminal.config.getoption("tbstyle", "auto") != "no" else (),
    )
    for line in itertools.chain(lines, end.section):
        _write(terminal, line)
    for note in end.notes:
        terminal.write_line(f"agentv: {visible(note)}")
    if end.report is not None:
        terminal.write_line(f"Report written to: {visible(locate(end.report, None))}")
    if hint := _waiting_hint(end):
        terminal.write_line(hint)
    for remark in end.remarks:
        terminal.write_line(visible(remark), yellow=True)
    _write_losses(terminal, end)
    for annotation in end.annotations:
        terminal.write_line(annotation)


def _write_losses(terminal: TerminalReporter, end: RunEnd) -> None:
    if end.lost:
        terminal.write_line(f"{lost_text(end.lost)}:", red=True)
        for node_id in end.lost:
            terminal.write_line(f"  {visible(node_id)}", red=True)
        terminal.write_line("Run them with --agentv-resume.", red=True)
    for text in end.write_errors:
        terminal.write_line(f"Results were lost: {visible(text)}", red=True, bold=True)


def _waiting_hint(end: RunEnd) -> str | None:
    """Return what a run could gain whose cases waited one after another; None: it has its own limit, or workers."""
    if end.options.workers is not None or end.has_workers or end.options.dry_run:
        return None
    return waiting_hint(end.run.results, end.elapsed_ms, end.cpu_ms)


def _write(terminal: TerminalReporter, line: SummaryLine) -> None:
    if line.style == "title":
        terminal.write_sep("=", line.text)
    else:
        terminal.write_line(line.text, **_MARKUP.get(line.style, {}))
