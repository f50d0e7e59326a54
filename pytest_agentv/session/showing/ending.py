"""Prints the end of a run: the summary, the section on statistics, and problems beside the cases."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_agentv.errors import locate
from pytest_agentv.model.base import Record
from pytest_agentv.model.run_options import RunOptions
from pytest_agentv.reports.figures import SummaryLine, visible
from pytest_agentv.reports.summary import Outcomes, summary_lines
from pytest_agentv.reports.totals import waiting_hint
from pytest_agentv.session.compat import TerminalReporter, items_of
from pytest_agentv.session.outcomes import may_be_eval
from pytest_agentv.session.recording.identity import RunIdentity
from pytest_agentv.session.recording.run_results import RunResults
from pytest_agentv.session.showing.item_outcomes import (
    ItemOutcomes,
    held_text,
    ignored_text,
    lost_text,
    uncollected_text,
)
from pytest_agentv.session.user_hooks import held_by

if TYPE_CHECKING:
    from pytest_agentv.reports.markdown import (
        RunVerdict,  # only for CI services
        Trouble,
    )


# A run that has ended, in the form that summaries and CI services need.


@dataclass(frozen=True, slots=True)
class EndedRun(Record):
    """The facts about a run at its end, in the process that owns the terminal."""

    identity: RunIdentity
    options: RunOptions
    run: RunResults
    outcomes: ItemOutcomes
    is_broken_off: bool
    gate_texts: tuple[str, ...]
    """The texts of the gates that failed."""
    statistics: tuple[str, ...]
    """The section EVALUATION STATISTICS."""
    write_errors: tuple[str, ...]
    lost: tuple[str, ...]
    """The node ids of cases that were lost with crashed workers."""
    elapsed_ms: float

    @property
    def expected_words(self) -> str:
        """Return the words for cases whose low scores do not fail the run by themselves."""
        shown = self.outcomes.expected_failures
        left = any(each.status == "fail" and each.xfail is None and each.node_id in shown for each in self.run.results)
        return "judged with the run" if left and self.options.gate in ("run", "strict") else "failed as expected"

    def verdict(self) -> "RunVerdict":
        """Return the verdict for the summary page of a step."""
        from pytest_agentv.reports.markdown import RunVerdict  # noqa: PLC0415 - only for CI services

        return RunVerdict(
            self.run.results,
            self.run.earlier,
            frozenset(self.outcomes.expected_failures),
            self.expected_words,
            tuple(self.troubles()),
            self.identity.results_path,
            self.options.dry_run,
            self.elapsed_ms,
            self.statistics,
            frozenset(self.outcomes.unexpected_passes),
        )

    def troubles(self) -> "Iterator[Trouble]":
        """Yield problems of the run that are not in its results."""
        from pytest_agentv.reports.markdown import Trouble  # noqa: PLC0415 - only for CI services

        if self.is_broken_off:
            yield Trouble("The run broke off before its end")
        if files := tuple(self.outcomes.uncollected):
            yield Trouble(uncollected_text(len(files)), files)
        yield from (Trouble("The gate failed", (text,)) for text in self.gate_texts)
        if ignored := tuple(self.outcomes.ignored):
            yield Trouble(ignored_text(len(ignored)), ignored)
        others = self.outcomes.failed_with_good_scores(self.run.results)
        if self.write_errors:
            yield Trouble("Results were lost", self.write_errors)
        elif others:
            yield Trouble("Failed outside of their evaluation (fixtures, strict `xfail`)", others)
        if self.lost:
            yield Trouble(lost_text(self.lost), self.lost)


_MARKUP: Final[Mapping[str, Mapping[str, bool]]] = {
    "error": {"red": True, "bold": True},
    "fail": {"red": True},
    "pass": {"green": True},
    "warning": {"yellow": True},
    "heading": {"bold": True},
}


@dataclass(frozen=True, slots=True)
class RunEnd(Record):
    """The texts for the terminal at the end of a run."""

    ended: EndedRun
    cpu_ms: float
    has_workers: bool
    """Whether the cases ran in other processes."""
    section: tuple[SummaryLine, ...] = ()
    """The section EVALUATION STATISTICS."""
    notes: tuple[str, ...] = ()
    report: Path | None = None
    """The HTML report, once it is written."""
    remarks: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    """Commands to GitHub, as they must appear in the log."""


def write_end(terminal: TerminalReporter, end: RunEnd) -> None:
    """Print the end of a run, below pytest's own output."""
    ended = end.ended
    lines = summary_lines(
        ended.run.results,
        results_path=ended.identity.results_path,
        dry_run=ended.options.dry_run,
        elapsed_ms=ended.elapsed_ms,
        earlier=ended.run.earlier,
        outcomes=Outcomes(
            frozenset(ended.outcomes.expected_failures),
            frozenset(ended.outcomes.unexpected_passes),
            ended.expected_words,
        ),
        shown_errors=ended.outcomes.explained if terminal.config.getoption("tbstyle", "auto") != "no" else (),
    )
    for line in itertools.chain(lines, _source_lines(ended.identity), end.section):
        _write(terminal, line)
    for note in end.notes:
        terminal.write_line(f"agentv: {visible(note)}")
    if end.report is not None:
        terminal.write_line(f"Report written to: {visible(locate(end.report, None))}")
    for hint in _waiting_hints(end, terminal):
        terminal.write_line(visible(hint))
    for remark in end.remarks:
        terminal.write_line(visible(remark), yellow=True)
    _write_losses(terminal, ended)
    for annotation in end.annotations:
        terminal.write_line(annotation)


def _source_lines(identity: RunIdentity) -> Iterator[SummaryLine]:
    """Yield the file that a run resumed, unless it writes to the same file. The user may not have named it."""
    if identity.resumed is not None and identity.resumed.path != identity.results_path:
        yield SummaryLine(f"Resumed from:       {locate(identity.resumed.path, None)}")


def _write_losses(terminal: TerminalReporter, ended: EndedRun) -> None:
    if ended.lost:
        terminal.write_line(f"{lost_text(ended.lost)}:", red=True)
        for node_id in ended.lost:
            terminal.write_line(f"  {visible(node_id)}", red=True)
        if ended.run.results:
            terminal.write_line("Run them with --agentv-resume.", red=True)
    for text in ended.write_errors:
        terminal.write_line(f"Results were lost: {visible(text)}", red=True, bold=True)


def _waiting_hints(end: RunEnd, terminal: TerminalReporter) -> Sequence[str]:
    """Return hints for a run whose cases waited one after another; none if it has a limit of its own, or workers.

    If more workers are of no use, because a conftest keeps the cases in turn, they say what does.
    """
    ended = end.ended
    if ended.options.workers is not None or end.has_workers or ended.options.dry_run:
        return ()
    # `--agentv-workers` does not reach tests in Python.
    cases = [result for result in ended.run.results if may_be_eval(result.node_id or "")]
    if waiting_hint(cases, ended.elapsed_ms, end.cpu_ms) is None:
        return ()
    held = _held_cases({result.node_id for result in cases}, items_of(terminal))
    free = [result for result in cases if result.node_id not in held]
    if hint := waiting_hint(free, ended.elapsed_ms, end.cpu_ms):
        return (hint,)
    return [held_text(holder) for holder in dict.fromkeys(held.values()) if holder not in ended.outcomes.held]


def _held_cases(node_ids: Collection[str | None], items: Iterable[pytest.Item]) -> dict[str, str]:
    """Return what keeps cases in their turn, by node id. Cases that may run ahead are left out."""
    cases = (item for item in items if item.nodeid in node_ids and isinstance(item, pytest.Function))
    return {item.nodeid: holder for item in cases if (holder := held_by(item)) is not None}


def _write(terminal: TerminalReporter, line: SummaryLine) -> None:
    if line.style == "title":
        terminal.write_sep("=", line.text)
    else:
        terminal.write_line(line.text, **_MARKUP.get(line.style, {}))
