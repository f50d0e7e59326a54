"""The live line of a run on a terminal."""

import io
import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_agentv.model.messages import ExecutionMetrics
from pytest_agentv.model.results import EvalResult
from pytest_agentv.session.progress import Progress

PASSED = EvalResult("t", "a", "d", 1.0, (), (), "hello", "default")
PAID = PASSED.replace(execution_metrics=ExecutionMetrics(cost_usd=0.25))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Config:
    """What the line wants to know of a pytest run."""

    def __init__(self, width: int = 120, verbosity: int = 0, file: io.StringIO | None = None) -> None:
        self.file = file or Terminal()
        self.pluginmanager = SimpleNamespace(has_plugin=lambda _: True, get_plugin=lambda _: None)
        self._writer = SimpleNamespace(fullwidth=width, width_of_current_line=10, _file=self.file)
        self._verbosity = verbosity

    def get_terminal_writer(self) -> Any:
        return self._writer

    def get_verbosity(self) -> int:
        return self._verbosity


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def progress(total: int, *results: EvalResult, config: Any = None) -> Progress:
    shown = Progress(cast("pytest.Config", config or Config()))
    shown.total = total
    for result in results:
        shown.count(result)
    return shown


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ([], "0/4 done, 3 in flight, 10.0 s"),
        (
            [PASSED, PASSED.replace(status="fail"), PASSED.replace(status="error")],
            "3/4 done, 3 in flight, 1 failed, 1 error, 10.0 s, about 3.3 s left, 18/min",
        ),
        (
            [PAID, PAID.replace(eval_id="b")],
            "2/4 done, 3 in flight, 10.0 s, about 10.0 s left, $0.5000 of about $1.0000, 12/min",
        ),
        (
            [PAID, PAID.replace(eval_id="b", cached=True)],
            "2/4 done, 3 in flight, 10.0 s, about 10.0 s left, $0.2500 of about $0.5000, 12/min",
        ),
    ],
)
def test_the_line_counts_what_is_done_in_flight_broken_and_paid_and_estimates_the_rest(
    results: list[EvalResult], text: str
) -> None:
    assert progress(4, *results).text(3, 10.0) == text


def test_answers_of_repeated_cases_count_one_by_one_and_those_that_were_not_asked_with_their_case() -> None:
    shown = progress(11, PASSED)
    for _ in range(3):
        shown.count_answer(PAID.replace(node_id="lamp"))
    assert shown.text(2, 10.0) == "4/11 done, 2 in flight, 10.0 s, about 17.5 s left, $0.7500 of about $2.0625, 24/min"
    shown.count(PAID.replace(node_id="lamp", execution_metrics=ExecutionMetrics(cost_usd=0.75)), planned=5)
    assert shown.text(2, 10.0) == "6/11 done, 2 in flight, 10.0 s, about 8.3 s left, $0.7500 of about $1.3750, 36/min"
    shown.count(PAID.replace(node_id="tent", execution_metrics=ExecutionMetrics(cost_usd=1.25)), planned=5)
    assert shown.text(0, 10.0) == "11/11 done, 0 in flight, 10.0 s, $2.0000"


def test_the_line_leaves_the_cursor_where_it_is_and_is_taken_away_before_pytest_writes() -> None:
    config = Config()
    line = progress(4, PASSED, config=config)
    line.show(2)
    assert config.file.getvalue().startswith("\x1b7  1/4 done, 2 in flight, ")
    assert config.file.getvalue().endswith("/min\x1b[K\x1b8")
    line.clear()
    assert config.file.getvalue().endswith("\x1b8\x1b[K")
    written = config.file.getvalue()
    line.clear()
    assert config.file.getvalue() == written


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (22, ["0/4 done, 2 in flight,", "0 ms"]),
        (9, ["0/4 done,", "2 in"]),
    ],
)
def test_a_line_without_room_goes_below(width: int, shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_agentv.session.progress.time.monotonic", lambda: 7.0)
    config = Config(width=width)
    line = progress(4, config=config)
    line.show(2)
    drawn = "".join(f"\r\n{each}\x1b[K" for each in shown)
    assert config.file.getvalue() == f"\x1b7\x1b[K\x1b8{drawn}\x1b[J\x1b[{len(shown)}A\x1b[11G"
    line.clear()
    assert config.file.getvalue().endswith("\x1b[J")


def test_the_line_comes_again_with_the_next_item_once_it_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count(step=1)
    monkeypatch.setattr("pytest_agentv.session.progress.time.monotonic", lambda: next(seconds))
    config = Config()
    line = progress(4, PASSED, config=config)
    line.show_again(2)
    assert config.file.getvalue() == "", "a quick run shows nothing"
    line.show(2)
    line.clear()
    written = len(config.file.getvalue())
    line.show_again(2)
    assert "1/4 done" in config.file.getvalue()[written:]
    monkeypatch.setattr("pytest_agentv.session.progress._REDRAW_SECONDS", 10)
    line.clear()
    written = len(config.file.getvalue())
    line.show_again(2)
    assert len(config.file.getvalue()) == written, "not for each of many items"


@pytest.mark.parametrize("case", ["file", "quiet", "ci", "dumb", "worker", "no terminal plugin"])
def test_nothing_is_drawn_where_nobody_watches(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config: Any = Config(verbosity=-1 if case == "quiet" else 0, file=io.StringIO() if case == "file" else None)
    if case == "ci":
        monkeypatch.setenv("CI", "true")
    elif case == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    elif case == "worker":
        config.workerinput = {}
    elif case == "no terminal plugin":
        config.pluginmanager.has_plugin = lambda _: False
    line = progress(4, PASSED, config=config)
    line.show(2)
    line.clear()
    assert config.file.getvalue() == ""
