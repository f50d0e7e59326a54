"""The live line: behind pytest's progress or below it while an item waits; in CI, a log line."""

import io
import os
import textwrap
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TextIO

import pytest

from pytest_agentv.model.base import counted
from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.figures import format_cost, format_duration, total_cost_of, visible
from pytest_agentv.session.compat import terminal_file, uncaptured

# Counts the answers of a run while it goes on, and formats the counts.


@dataclass(slots=True)
class Tally:
    """Counts of the answers of a run, or of one of its targets."""

    done: int = 0
    failed: int = 0
    errors: int = 0
    cost: float = 0.0
    busy_ms: float = 0.0
    """The summed durations of the counted cases."""
    cases: int = 0

    def judge(self, result: EvalResult) -> None:
        """Count the result of a case."""
        self.failed += result.status == "fail"
        self.errors += result.status == "error"
        self.busy_ms += result.duration_ms or 0
        self.cases += 1

    def troubles(self) -> list[str]:
        errors = [counted(self.errors, "error")] if self.errors else []
        return [*([f"{self.failed:,} failed"] if self.failed else []), *errors]


def line_text(tally: Tally, total: int, in_flight: int, elapsed_seconds: float) -> str:
    """Return the line: done, in flight, failed, errors, time, time left, cost and its forecast, rate."""
    parts = [f"{tally.done:,}/{total:,} done", f"{in_flight:,} in flight", *tally.troubles()]
    parts.append(format_duration(elapsed_seconds * 1000))
    goes_on = 0 < tally.done < total
    if goes_on:
        left = elapsed_seconds / tally.done * (total - tally.done)
        parts.append(f"about {format_duration(left * 1000)} left")
    if tally.cost:
        forecast = f" of about {format_cost(tally.cost / tally.done * total)}" if goes_on else ""
        parts.append(f"{format_cost(tally.cost)}{forecast}")
    if goes_on and elapsed_seconds > 0:
        parts.append(f"{60 * tally.done / elapsed_seconds:.0f}/min")
    return ", ".join(parts)


def log_text(tally: Tally, total: int, elapsed_seconds: float) -> str:
    """Return the line of a log: `evals: 30 % (15/48), 2 failed, $0.1200, 12.0 s`."""
    share = f"evals: {100 * tally.done // total} % ({tally.done:,}/{total:,})"
    cost = [format_cost(tally.cost)] if tally.cost else []
    return ", ".join([share, *tally.troubles(), *cost, format_duration(elapsed_seconds * 1000)])


# The live line: behind pytest's progress or below it while an item waits; in CI, a log line for each tenth.

_SAVE, _RESTORE, _CLEAR = "\x1b7", "\x1b8", "\x1b[K"
_CLEAR_BELOW = "\x1b[J"
_LEAST_TARGETS = 2
_LEAST_LOGGED = 10
"""The least number of answers for which progress is logged."""
_LOG_SECONDS = 5
"""The least number of seconds between two log lines, so that a short run logs none."""
_REDRAW_SECONDS = 0.1
"""The least number of seconds between two drawings when one item follows another: a table takes a millisecond."""
_MOST_LINES = 2
"""The most lines that a live line takes if it does not fit behind pytest's progress."""
_MARGIN = 12
"""Columns at the right end for pytest's percentage."""


class Progress:
    """Counts the answers of this process and shows them: as a line on a terminal, and once for each tenth in CI."""

    def __init__(self, config: pytest.Config) -> None:
        self.total = 0
        """How many answers this process will get: one per case, or all answers of a repeated case."""
        self._answers: Counter[str | None] = Counter()
        """How many answers of unfinished repeated cases are counted, by node id."""
        self._costs: dict[tuple[str | None, str], float] = {}
        """What is counted of the cost of each case. Its last result tells all that was paid for it."""
        self._tally = Tally()
        self._targets: dict[str, Tally] = {}
        self._started = time.monotonic()
        self._config = config
        has_terminal = config.pluginmanager.has_plugin("terminalreporter")  # missing with `-p no:terminal`
        self._writer = config.get_terminal_writer() if has_terminal else None
        self._file = _terminal(config) if has_terminal else None
        self._log = config.pluginmanager.get_plugin("terminalreporter") if _is_logged(config) else None
        self._is_seen = self._file is not None or self._log is not None
        """Whether anybody sees the counts."""
        self._tenths = 0
        self._logged = self._started
        self._is_shown = False
        self._lines_below = 0
        self._drawn: float | None = None
        """When the line was drawn last; None: no item has waited long enough."""

    def count(self, result: EvalResult, planned: int = 1) -> None:
        """Count a finished case, as all of its planned answers."""
        if not self._is_seen:
            return
        counted = self._answers.pop(result.node_id, 0)
        case = (result.node_id, result.eval_id)
        cost = total_cost_of(result) - self._costs.get(case, 0.0)
        self._costs[case] = total_cost_of(result)
        for tally in self._tallies(result):
            tally.done += max(1 if planned == 1 else 0, planned - counted)
            tally.cost += max(0.0, cost)
            tally.judge(result)

    def count_answer(self, result: EvalResult) -> None:
        """Count an answer of a repeated case."""
        if not self._is_seen:
            return
        self._answers[result.node_id] += 1
        case = (result.node_id, result.eval_id)
        self._costs[case] = self._costs.get(case, 0.0) + total_cost_of(result)
        for tally in self._tallies(result):
            tally.done += 1
            tally.cost += total_cost_of(result)

    def show(self, in_flight: int) -> None:
        """Redraw the line without moving the cursor."""
        self._write_log()
        if self._file is None or self._writer is None:
            return
        self._drawn = time.monotonic()
        text = self.text(in_flight, self._drawn - self._started)
        width = self._writer.fullwidth - self._writer.width_of_current_line - _MARGIN
        fits = len(text) + 2 <= width
        behind, below = (f"  {text}", []) if fits else ("", textwrap.wrap(text, self._writer.fullwidth)[:_MOST_LINES])
        below += self._table()
        self._draw(f"{_SAVE}{behind}{_CLEAR}{_RESTORE}{self._below(below)}")
        self._is_shown, self._lines_below = True, len(below)

    def show_again(self, in_flight: int) -> None:
        """Draw the line again that the end of the previous item has cleared, if this run shows it."""
        if self._drawn is not None and time.monotonic() - self._drawn >= _REDRAW_SECONDS:
            self.show(in_flight)

    def clear(self) -> None:
        """Clear the line, so that pytest writes on an empty one."""
        self._write_log()
        if self._is_shown:
            self._draw(_CLEAR_BELOW if self._lines_below else _CLEAR)
            self._is_shown = False

    def text(self, in_flight: int, elapsed_seconds: float) -> str:
        """Return the line for the current counts."""
        return line_text(self._tally, self.total, in_flight, elapsed_seconds)

    def _tallies(self, result: EvalResult) -> tuple[Tally, Tally]:
        return self._tally, self._targets.setdefault(result.target, Tally())

    def _below(self, lines: Sequence[str]) -> str:
        """Return the control sequence that draws lines below the cursor and moves the cursor back."""
        if not lines or self._writer is None:
            return ""
        column = self._writer.width_of_current_line + 1
        # Newlines may scroll the screen, so a saved cursor position would be wrong.
        drawn = "".join(f"\r\n{line}{_CLEAR}" for line in lines)
        return f"{drawn}{_CLEAR_BELOW}\x1b[{len(lines)}A\x1b[{column}G"

    def _table(self) -> list[str]:
        """Return the table below the line; empty for one target, for which the line is enough."""
        if self._writer is None or len(self._targets) < _LEAST_TARGETS:
            return []

        return table_lines(dict(self._targets), self._writer.fullwidth) if has_rich() else []

    def _write_log(self) -> None:
        """Write a line to the log of a CI service whenever another tenth of the answers is there."""
        if self._log is None or self.total < _LEAST_LOGGED:
            return
        tenths, now = 10 * self._tally.done // self.total, time.monotonic()
        if tenths > self._tenths and now - self._logged >= _LOG_SECONDS:
            self._tenths, self._logged = tenths, now
            with uncaptured(self._config):
                self._log.ensure_newline()
                self._log.write_line(log_text(self._tally, self.total, now - self._started))

    def _draw(self, text: str) -> None:
        if self._file is not None:
            with uncaptured(self._config):
                self._file.write(text)  # not through the writer, which would count it as part of its line
                self._file.flush()


def _is_logged(config: pytest.Config) -> bool:
    """Whether output goes to the log of a CI service. xdist's workers have no log."""
    return bool(os.environ.get("CI")) and config.get_verbosity() >= 0 and not hasattr(config, "workerinput")


def _terminal(config: pytest.Config) -> TextIO | None:
    """Return the terminal's file, if there is a terminal and the line may be shown on it."""
    is_quiet = config.get_verbosity() < 0 or hasattr(config, "workerinput")
    if is_quiet or os.environ.get("CI") or os.environ.get("TERM", "dumb") == "dumb":
        return None
    file = terminal_file(config.get_terminal_writer())
    with uncaptured(config):
        return file if file is not None and file.isatty() else None


# A small table with a row per target, drawn by rich where that is installed.

_MOST_ROWS = 8


def has_rich() -> bool:
    return find_spec("rich") is not None


def table_lines(targets: Mapping[str, Tally], width: int) -> list[str]:
    """Return the lines of the table, with colours: at most eight targets."""
    from rich import box  # noqa: PLC0415 - optional
    from rich.console import Console  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("target", no_wrap=True)
    for name in ("done", "failed", "errors", "cost", "mean time"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, tally in list(targets.items())[:_MOST_ROWS]:
        mean = format_duration(tally.busy_ms / tally.cases) if tally.cases else ""
        cost = format_cost(tally.cost) if tally.cost else ""
        failed = Text(str(tally.failed), style="red" if tally.failed else "")
        errors = Text(str(tally.errors), style="bold red" if tally.errors else "")
        table.add_row(Text(visible(name)), str(tally.done), failed, errors, cost, mean)
    file = io.StringIO()
    Console(file=file, width=width, force_terminal=True, color_system="standard", legacy_windows=False).print(table)
    return file.getvalue().rstrip("\n").split("\n")
