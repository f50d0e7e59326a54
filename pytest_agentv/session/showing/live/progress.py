"""The live line: behind pytest's progress or below it while an item waits; in CI, a log line for each tenth."""

import os
import textwrap
import time
from collections.abc import Sequence
from typing import TextIO

import pytest

from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.compat import terminal_file, uncaptured
from pytest_agentv.session.showing.live.tallies import Tally, line_text, log_text, paid

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
        self._answers: dict[str | None, tuple[int, float]] = {}
        """The counted answers of unfinished repeated cases, and their cost, by node id."""
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
        counted, cost = self._answers.pop(result.node_id, (0, 0.0))
        for tally in self._tallies(result):
            tally.done += max(1 if planned == 1 else 0, planned - counted)
            tally.cost += max(0.0, paid(result) - cost)
            tally.judge(result)

    def count_answer(self, result: EvalResult) -> None:
        """Count an answer of a repeated case."""
        if not self._is_seen:
            return
        counted, known = self._answers.get(result.node_id, (0, 0.0))
        self._answers[result.node_id] = (counted + 1, known + paid(result))
        for tally in self._tallies(result):
            tally.done += 1
            tally.cost += paid(result)

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
        from pytest_agentv.session.showing.live.table import has_rich, table_lines  # noqa: PLC0415 - optional

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
