"""A live line behind pytest's own progress, while an item waits for its case; on terminals only."""

import os
import time
from typing import TextIO

import pytest

from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.figures import cost_of, format_cost, format_duration
from pytest_agentv.session.compat import terminal_file, uncaptured

_SAVE, _RESTORE, _CLEAR = "\x1b7", "\x1b8", "\x1b[K"
_MARGIN = 12
"""Columns at the right end for pytest's percentage."""


class Progress:
    """Counts the answers of this process and shows them."""

    def __init__(self, config: pytest.Config) -> None:
        self.total = 0
        """Answers this process has to get: one of each case, or as many as a case is judged by."""
        self._answers: dict[str | None, tuple[int, float]] = {}
        """Answers, and what they cost, of repeated cases that are not done, by node id."""
        self._done = 0
        self._errors = 0
        self._cost = 0.0
        self._started = time.monotonic()
        self._config = config
        has_terminal = config.pluginmanager.has_plugin("terminalreporter")  # -p no:terminal
        self._writer = config.get_terminal_writer() if has_terminal else None
        self._file = _terminal(config) if has_terminal else None
        self._is_shown = False

    def count(self, result: EvalResult, planned: int = 1) -> None:
        """Learn of a case that is done, and counts as all of its planned answers."""
        counted, cost = self._answers.pop(result.node_id, (0, 0.0))
        self._done += max(1 if planned == 1 else 0, planned - counted)
        self._errors += result.status == "error"
        self._cost += max(0.0, (0 if result.cached else cost_of(result) or 0) - cost)

    def count_answer(self, result: EvalResult) -> None:
        """Learn of an answer of a case that is asked more than once."""
        counted, known = self._answers.get(result.node_id, (0, 0.0))
        cost = 0 if result.cached else cost_of(result) or 0
        self._answers[result.node_id] = (counted + 1, known + cost)
        self._done += 1
        self._cost += cost

    def show(self, in_flight: int) -> None:
        """Draw the line anew, without moving the cursor."""
        if self._file is None or self._writer is None:
            return
        room = max(0, self._writer.fullwidth - self._writer.width_of_current_line - _MARGIN)
        text = f"  {self.text(in_flight, time.monotonic() - self._started)}"
        while len(text) > room:
            text = text.rpartition(", ")[0]
        self._draw(f"{_SAVE}{text}{_CLEAR}{_RESTORE}")
        self._is_shown = True

    def clear(self) -> None:
        """Take the line away, so that pytest writes on an empty one."""
        if self._is_shown:
            self._draw(_CLEAR)
            self._is_shown = False

    def text(self, in_flight: int, elapsed_seconds: float) -> str:
        """Return the line for the counts of now."""
        parts = [f"{self._done}/{self.total} done", f"{in_flight} in flight"]
        if self._errors:
            parts.append(f"{self._errors} {'error' if self._errors == 1 else 'errors'}")
        parts.append(format_duration(elapsed_seconds * 1000))
        if 0 < self._done < self.total:
            left = elapsed_seconds / self._done * (self.total - self._done)
            parts.append(f"about {format_duration(left * 1000)} left")
        if self._cost:
            parts.append(format_cost(self._cost))
        return ", ".join(parts)

    def _draw(self, text: str) -> None:
        if self._file is not None:
            with uncaptured(self._config):
                self._file.write(text)  # past the writer, which would count it to the width of its line
                self._file.flush()


def _terminal(config: pytest.Config) -> TextIO | None:
    """Return the terminal's file, if there is a terminal and a live line is wanted on it."""
    is_quiet = config.get_verbosity() < 0 or hasattr(config, "workerinput")
    if is_quiet or os.environ.get("CI") or os.environ.get("TERM", "dumb") == "dumb":
        return None
    file = terminal_file(config.get_terminal_writer())
    with uncaptured(config):
        return file if file is not None and file.isatty() else None
