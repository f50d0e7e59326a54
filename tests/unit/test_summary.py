"""The summary's lines. The golden file shows the whole of one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pytest_agentv.model.messages import Costs
from pytest_agentv.model.results import ErrorDetail, EvalResult, Spent
from pytest_agentv.reports.summary import summary_lines, waiting_hint
from pytest_agentv.reports.view import RunView


def result(eval_id: str, score: float = 1.0, **changes: Any) -> EvalResult:
    plain = EvalResult("2026-11-20T13:11:09.075Z", eval_id, "qa", score, (), (), "answer", "agent")
    place = {"node_id": f"evals/qa.eval.yaml::{eval_id}", "eval_file": "evals/qa.eval.yaml", "line": 12}
    return plain.replace(**(place | changes))


def broken(eval_id: str, error: str, **changes: Any) -> EvalResult:
    detail = ErrorDetail("provider", "timeout")
    return result(eval_id, 0.0, **({"status": "error", "error": error, "error_detail": detail} | changes))


def summary(*results: EvalResult, **options: Any) -> list[str]:
    return [line.text for line in summary_lines(RunView(results), **options)]


def test_counts_of_thousands_have_a_separator_throughout_the_line() -> None:
    few, many = [result("a", 0.0, status="fail")] * 1_500, [broken("b", "boom")] * 2_500
    counts = "Total eval cases: 5,000 (1,000 passed, 1,500 failed, 2,500 errors)"
    assert counts in summary(*[result("c")] * 1_000, *few, *many)


def test_long_errors_are_cut_to_four_lines() -> None:
    lines = summary(broken("a", "many words " * 500))
    assert lines[2:7] == [
        "  [provider, timeout] many words many words many words many words many words",
        "  many words many words many words many words many words many words many words",
        "  many words many words many words many words many words many words many words",
        "  ... (the full text is in the results file)",
        "  evals/qa.eval.yaml:12",
    ]


def test_errors_and_names_cannot_paint_on_the_terminal() -> None:
    lines = summary(broken("a", "\x1b[2Jgone\r\n\tnext", node_id="x::\x1b[31m\nred", error_detail=None, eval_file=None))
    assert lines[1:4] == ["x::\\x1b[31m red", "  \\x1b[2Jgone", "      next"]


def test_long_names_keep_their_end_within_80_columns() -> None:
    failed = result("a", 0.5, status="fail", node_id="evals/" + "deep/" * 30 + "qa.eval.yaml::a")
    name = summary(failed, result("b"), with_statistics=True)[-2]
    assert len(name) == 80
    assert name.startswith("  1. 0.500  ...")
    assert name.endswith("/deep/qa.eval.yaml::a")


NOT_ASKED = broken("b", "no such key", error_detail=ErrorDetail("setup", "config"), duration_ms=0.0)
PAID = Costs.of_call(None, 0.5)


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (NOT_ASKED, ["Cost:             $0.5000"]),
        (NOT_ASKED.replace(spent=Spent(PAID)), ["Cost:             $1.0000"]),
        (NOT_ASKED.replace(spent=Spent(PAID), reruns=1), ["Cost:             $1.0000", "Reruns:           1"]),
        (
            broken("b", "HTTP 503", spent=Spent(Costs(1), PAID)),
            ["Cost:             $0.5000, known for 1 of 2 calls; $0.5000 for judges"],
        ),
    ],
    ids=["broken", "broken later", "broken after a rerun", "asked"],
)
def test_a_case_that_could_not_be_asked_has_no_unknown_cost(last: EvalResult, told: list[str]) -> None:
    lines = summary(result("a", spent=Spent(PAID)), last)
    assert [line for line in lines if line.startswith(("Cost:", "Reruns:"))] == told


@pytest.mark.parametrize(
    ("cases", "case_ms", "cpu_ms", "options", "hint"),
    [
        (48, 1_000, 900, {}, "48 cases one after another, 98 % waiting: try --agentv-workers=20"),
        (48, 1_000, 900, {"apart_ms": 500, "elapsed_ms": 24_500}, None),  # two at a time
        (48, 1_000, 20_000, {}, None),  # it computed
    ],
)
def test_a_run_that_waited_for_one_case_after_another_says_what_to_do(
    cases: int, case_ms: float, cpu_ms: float, options: dict[str, Any], hint: str | None
) -> None:
    apart = timedelta(milliseconds=options.get("apart_ms", case_ms))
    times = [(datetime(2026, 11, 26, tzinfo=UTC) + n * apart).isoformat() for n in range(cases)]
    cached = options.get("cached")
    results = [result(f"c{n}", timestamp=time, duration_ms=case_ms, cached=cached) for n, time in enumerate(times)]
    assert waiting_hint(results, options.get("elapsed_ms", 49_000), cpu_ms) == hint
