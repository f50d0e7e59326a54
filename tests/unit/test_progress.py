"""The live line of a run on a terminal."""

import io
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_agentv.model.messages import ExecutionMetrics
from pytest_agentv.model.results import EvalResult
from pytest_agentv.session.progress import Progress

PASSED = EvalResult("t", "a", "d", 1.0, (), (), "hello", "default")
PAID = PASSED.replace(execution_metrics=ExecutionMetrics(cost_usd=0.25))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def config_of(width: int = 120) -> Any:
    """Return what the line wants to know of a pytest run."""
    writer = SimpleNamespace(fullwidth=width, width_of_current_line=10, _file=Terminal())
    plugins = SimpleNamespace(has_plugin=lambda _: True, get_plugin=lambda _: None)
    return SimpleNamespace(pluginmanager=plugins, get_terminal_writer=lambda: writer, get_verbosity=lambda: 0)


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def progress(total: int, *results: EvalResult, config: Any = None) -> Progress:
    shown = Progress(config or config_of())
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


@pytest.mark.parametrize(("width", "shown"), [(22, ["0/4 done, 2 in flight,", "0 ms"]), (9, ["0/4 done,", "2 in"])])
def test_a_line_goes_below_and_takes_two_lines_at_most(
    width: int, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_agentv.session.progress.time.monotonic", lambda: 7.0)
    config = config_of(width)
    line, written = progress(4, config=config), config.get_terminal_writer()._file
    line.show(2)
    drawn = "".join(f"\r\n{each}\x1b[K" for each in shown)
    assert written.getvalue() == f"{drawn}\x1b[J\x1b[{len(shown)}A\x1b[11G"
    line.clear()
    assert written.getvalue().endswith("\x1b[J")
