"""Shows the end of a run: on the terminal, on GitHub, and as an HTML report."""

import itertools
import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from pytest_agentv.errors import AgentvError, locate
from pytest_agentv.model.base import JsonObject, Record, counted
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.figures import SummaryLine, visible
from pytest_agentv.reports.summary import FULL_SUMMARY, summary_lines, waiting_hint
from pytest_agentv.reports.view import NO_VERDICT, RunView, Trouble, ending_of
from pytest_agentv.session.compat import TerminalReporter, items_of
from pytest_agentv.session.outcomes import may_be_eval, uncollected_text
from pytest_agentv.session.recording.identity import RunIdentity
from pytest_agentv.session.recording.run_results import RunResults
from pytest_agentv.session.showing.item_outcomes import ItemOutcomes, held_text, ignored_text, lost_text
from pytest_agentv.session.user_hooks import held_by

# A run that has ended, in the form that summaries and CI services need.


@dataclass(frozen=True, slots=True)
class EndedRun(Record):
    """The facts about a run at its end, in the process that owns the terminal."""

    identity: RunIdentity
    options: RunOptions
    run: RunResults
    outcomes: ItemOutcomes
    is_broken_off: bool
    contract: JsonObject | None
    """The JSON of the verdict on the run; None: there is none."""
    statistics: tuple[SummaryLine, ...]
    """The section EVALUATION STATISTICS."""
    write_errors: tuple[str, ...]
    lost: tuple[str, ...]
    """The node ids of cases that were lost with crashed workers."""
    elapsed_ms: float

    @property
    def view(self) -> RunView:
        """The run as all reports read it."""
        results, outcomes = self.run.results, self.outcomes
        ending = ending_of(self.contract)
        unexpected = outcomes.unexpected_passes.intersection(each.node_id or "" for each in results)
        ending = ending.replace(
            troubles=tuple(self._troubles(unexpected)),
            expected=frozenset(outcomes.expected_failures) - ending.judged_with_run,
            unexpected=frozenset(unexpected),
        )
        name = self.identity.results_path.name
        problems = tuple(map(str, self.run.problems))
        return RunView(results, ending, name, (), self.run.replaced, problems, self.elapsed_ms)

    def _troubles(self, unexpected: Collection[str]) -> Iterator[Trouble]:
        """Yield problems beside the evaluations and their gates."""
        if self.is_broken_off:
            yield Trouble("The run broke off before its end")
        if files := tuple(self.outcomes.uncollected):
            yield Trouble(uncollected_text(len(files)), files)
        if ignored := tuple(self.outcomes.ignored):
            yield Trouble(ignored_text(len(ignored)), ignored)
        others = [each for each in self.outcomes.failed_with_good_scores(self.run.results) if each not in unexpected]
        if self.write_errors:
            yield Trouble("Results were lost", self.write_errors)
        elif others:
            yield Trouble(f"{counted(len(others), 'case')} failed outside of the evaluation", tuple(others))
        if self.lost:
            yield Trouble(lost_text(self.lost), self.lost)


_MARKUP: Final[Mapping[str, Mapping[str, bool]]] = {
    "error": {"red": True, "bold": True},
    "fail": {"red": True},
    "pass": {"green": True},
    "warning": {"yellow": True},
    "heading": {"bold": True},
}


def write_end(
    terminal: TerminalReporter,
    ended: EndedRun,
    *,
    notes: Iterable[str],
    remarks: Iterable[str],
    report: Path | None,
    annotations: Iterable[str],
    waited_ms: float | None,
) -> None:
    """Print the end of a run, below pytest's own output.

    Args:
        terminal: Where.
        ended: The run.
        notes: Lines below the summary.
        remarks: The same, in yellow.
        report: The HTML report, if it was written.
        annotations: Commands to GitHub, as they must appear in the log.
        waited_ms: How long this process waited; None: the cases ran in others.
    """
    config = terminal.config
    lines = summary_lines(
        ended.view,
        results_path=ended.identity.results_path,
        shown_errors=ended.outcomes.explained if config.getoption("tbstyle", "auto") != "no" else (),
        with_statistics=config.get_verbosity() > 0 or bool(os.environ.get(FULL_SUMMARY)),
    )
    for line in itertools.chain(lines, _source_lines(ended.identity), _report_lines(ended, report), ended.statistics):
        _write(terminal, line)
    for note in notes:
        terminal.write_line(f"agentv: {visible(note)}")
    for hint in _waiting_hints(ended, terminal, waited_ms):
        terminal.write_line(visible(hint))
    for remark in remarks:
        terminal.write_line(visible(remark), yellow=True)
    _write_losses(terminal, ended)
    for annotation in annotations:
        terminal.write_line(annotation)


def _report_lines(ended: EndedRun, report: Path | None) -> Iterator[SummaryLine]:
    """Yield where the report is, or the command that writes one."""
    if report is not None:
        yield SummaryLine(f"Report written to: {visible(locate(report, None))}")
    elif ended.run.results:
        command = f"agentv report {shlex.quote(locate(ended.identity.results_path, None))} -o report.html"
        yield SummaryLine(f"Report:             {command}")


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


def _waiting_hints(ended: EndedRun, terminal: TerminalReporter, waited_ms: float | None) -> Sequence[str]:
    """Return hints for a run whose cases waited one after another; none if it has a limit of its own, or workers.

    If more workers are of no use, because a conftest keeps the cases in turn, they say what does.
    """
    if ended.options.workers is not None or waited_ms is None or ended.options.dry_run:
        return ()
    cpu_ms = ended.elapsed_ms - waited_ms
    # `--agentv-workers` does not reach tests in Python.
    cases = [result for result in ended.run.results if may_be_eval(result.node_id or "")]
    if waiting_hint(cases, ended.elapsed_ms, cpu_ms) is None:
        return ()
    held = _held_cases({result.node_id for result in cases}, items_of(terminal))
    free = [result for result in cases if result.node_id not in held]
    if hint := waiting_hint(free, ended.elapsed_ms, cpu_ms):
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


# The summary page of a GitHub step, and annotations at the lines of cases.

_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
_FILE_LIMIT: Final = 1_048_576
"""In bytes. GitHub shows nothing of a longer file."""


def tell_github(ended: EndedRun) -> tuple[list[str], Sequence[str]]:
    """Write the summary page. Return its faults, and the lines of the log that become annotations."""
    from pytest_agentv.reports.ci import annotation_lines  # noqa: PLC0415 - only in CI

    masker = Masker.of_environment()
    name = os.environ.get(_SUMMARY)
    fault = _append_summary(ended, name, masker) if name else None
    lines = annotation_lines(ended.view, masker) if os.environ.get("GITHUB_ACTIONS") else ()
    return [fault] if fault else [], tuple(lines)


def _append_summary(ended: EndedRun, name: str, masker: Masker) -> str | None:
    """Append the verdict to the summary page. Return the reason if that failed."""
    from pytest_agentv.reports.markdown import MARKDOWN_LIMIT, markdown_lines  # noqa: PLC0415 - only in CI

    path = Path(name)
    try:
        size = path.stat().st_size if path.exists() else 0
        limit = min(MARKDOWN_LIMIT, _FILE_LIMIT - size - len("\n\n"))
        statistics = [line.text for line in ended.statistics]
        results_path = ended.identity.results_path
        lines = markdown_lines(ended.view, masker, limit, results_path=results_path, statistics=statistics)
        text = "".join(f"{line}\n" for line in lines)
        if not text:
            return f"{_SUMMARY}: {visible(name)} is full, so this run's verdict was not added to it"
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(f"\n\n{text}" if size else text)
    except OSError as error:
        return f"{_SUMMARY}: {visible(name)} cannot be written: {error.strerror or error}"
    return None


# The HTML report (`--agentv-html`), from the lines of the results file.


def write_html(path: Path, ended: EndedRun, config: pytest.Config) -> str | None:
    """Write the report; return why that could not be done."""
    from pytest_agentv.reports.html.page import write_report  # noqa: PLC0415 - only if asked for
    from pytest_agentv.reports.judged_cases import cases_of_run  # noqa: PLC0415 - only if asked for
    from pytest_agentv.reports.reading import compared, read_view  # noqa: PLC0415 - only if asked for
    from pytest_agentv.session.showing.texts import start_of  # noqa: PLC0415 - only if asked for

    options, results_path, contract = ended.options, ended.identity.results_path, ended.contract
    if path.resolve() in {each.resolve() for each in (results_path, options.baseline) if each is not None}:
        return f"{locate(path, None)}: no report was written: this is the file of results that it would be made of"
    if not ended.run.results:
        return f"{locate(path, None)}: no report was written: there are no results"
    is_judged = contract is not None and contract.get("verdict") != NO_VERDICT and options.update_baseline is None
    try:
        view = ended.view.replace(cases=tuple(cases_of_run(ended.run.results)))
        base = read_view(options.baseline) if options.baseline is not None and is_judged else None
        view = compared(view, base, margin=options.margin, is_confirming=options.confirm > 0)
        write_report(path, view, start=start_of(config))
    except (AgentvError, OSError) as error:
        return f"the report was not written: {error}"
    return None
