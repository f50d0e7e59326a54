"""The live line on a terminal, below pytest's progress, while an item waits."""

import os
import textwrap
import time
from collections import Counter
from typing import TextIO

import pytest

from pytest_agentv.model.base import counted
from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.figures import format_cost, format_duration, total_cost_of
from pytest_agentv.session.compat import terminal_file, uncaptured

_CLEAR, _CLEAR_BELOW = "\x1b[K", "\x1b[J"
_REDRAW_SECONDS = 0.1
"""The least number of seconds between two drawings when one item follows another."""
_MOST_LINES = 2
"""The most lines that a live line takes."""


class Progress:
    """Counts the answers of this process and shows them on a terminal."""

    def __init__(self, config: pytest.Config) -> None:
        self.total = 0
        """How many answers this process will get: one per case, or all answers of a repeated case."""
        self._done = self._failed = self._errors = 0
        self._cost = 0.0
        self._answers: Counter[str | None] = Counter()
        """How many answers of unfinished repeated cases are counted, by node id."""
        self._costs: dict[tuple[str | None, str], float] = {}
        """What is counted of the cost of each case. Its last result tells all that was paid for it."""
        self._started = time.monotonic()
        self._config = config
        self._file = _terminal(config)
        self._is_shown = False
        self._drawn: float | None = None
        """When the line was drawn last; None: no item has waited long enough."""

    def count(self, result: EvalResult, planned: int = 1) -> None:
        """Count a finished case, as all of its planned answers."""
        if self._file is None:
            return
        counted_before = self._answers.pop(result.node_id, 0)
        case, cost = (result.node_id, result.eval_id), total_cost_of(result)
        self._cost += max(0.0, cost - self._costs.get(case, 0.0))
        self._costs[case] = cost
        self._done += max(1 if planned == 1 else 0, planned - counted_before)
        self._failed += result.status == "fail"
        self._errors += result.status == "error"

    def count_answer(self, result: EvalResult) -> None:
        if self._file is None:
            return
        case, cost = (result.node_id, result.eval_id), total_cost_of(result)
        self._answers[result.node_id] += 1
        self._costs[case] = self._costs.get(case, 0.0) + cost
        self._done += 1
        self._cost += cost

    def show(self, in_flight: int) -> None:
        """Redraw the line without moving the cursor."""
        if self._file is None:
            return
        self._drawn = time.monotonic()
        writer = self._config.get_terminal_writer()
        text = self.text(in_flight, self._drawn - self._started)
        lines = textwrap.wrap(text, writer.fullwidth)[:_MOST_LINES]
        below = "".join(f"\r\n{line}{_CLEAR}" for line in lines)
        # Newlines may scroll the screen, so a saved cursor position would be wrong.
        self._draw(f"{below}{_CLEAR_BELOW}\x1b[{len(lines)}A\x1b[{writer.width_of_current_line + 1}G")
        self._is_shown = True

    def show_again(self, in_flight: int) -> None:
        """Draw the line again that the end of the previous item has cleared, if this run shows it."""
        if self._drawn is not None and time.monotonic() - self._drawn >= _REDRAW_SECONDS:
            self.show(in_flight)

    def clear(self) -> None:
        """Clear the line, so that pytest writes on an empty one."""
        if self._is_shown:
            self._draw(_CLEAR_BELOW)
            self._is_shown = False

    def text(self, in_flight: int, elapsed_seconds: float) -> str:
        """Return the line: done, in flight, failed, errors, time, time left, cost and its forecast, rate."""
        done, total = self._done, self.total
        parts = [f"{done:,}/{total:,} done", f"{in_flight:,} in flight"]
        if self._failed:
            parts.append(f"{self._failed:,} failed")
        if self._errors:
            parts.append(counted(self._errors, "error"))
        parts.append(format_duration(elapsed_seconds * 1000))
        goes_on = 0 < done < total
        if goes_on:
            parts.append(f"about {format_duration(elapsed_seconds / done * (total - done) * 1000)} left")
        if self._cost:
            forecast = f" of about {format_cost(self._cost / done * total)}" if goes_on else ""
            parts.append(f"{format_cost(self._cost)}{forecast}")
        if goes_on and elapsed_seconds > 0:
            parts.append(f"{60 * done / elapsed_seconds:.0f}/min")
        return ", ".join(parts)

    def _draw(self, text: str) -> None:
        if self._file is not None:
            with uncaptured(self._config):
                self._file.write(text)  # not through the writer, which would count it as part of its line
                self._file.flush()


def _terminal(config: pytest.Config) -> TextIO | None:
    """Return the terminal's file, if there is a terminal and the line may be shown on it."""
    is_quiet = config.get_verbosity() < 0 or hasattr(config, "workerinput")
    if is_quiet or os.environ.get("CI") or os.environ.get("TERM", "dumb") == "dumb":
        return None
    if not config.pluginmanager.has_plugin("terminalreporter"):  # missing with `-p no:terminal`
        return None
    file = terminal_file(config.get_terminal_writer())
    with uncaptured(config):
        return file if file is not None and file.isatty() else None
