"""Where the time of a case went: its parts, and a lane for each answer."""

from typing import Any

import pytest
from views import view

from pytest_agentv.reports.html.cases import Case, cases_of
from pytest_agentv.reports.html.page import PARTS, lanes_of, parts_of

JUDGED = {"name": "facts", "type": "llm_judge", "score": 1, "duration_ms": 300}


def case(**values: Any) -> Case:
    return cases_of(view("run.jsonl", [{"eval_id": "a", "score": 1, "threshold": 1, **values}]))[0]


def named(parts: Any) -> dict[str, float]:
    return {PARTS[part]: milliseconds for part, milliseconds in parts}


def answer(end: str, took: float | None, **values: Any) -> dict[str, Any]:
    return {"timestamp": end, "duration_ms": took, "status": "pass", "score": 1, **values}


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"execution_metrics": {"duration_ms": 800}}, {"target": 800}),
        ({"duration_ms": 900, "evaluator_results": [JUDGED]}, {"target": 600, "judges": 300}),  # it was not measured
        (
            {
                "execution_metrics": {"duration_ms": 800, "tool_durations": {"search": [100, 50]}},
                "evaluator_results": [JUDGED], "waited_ms": 400, "duration_ms": 2_000,
            },
            {"target": 650, "tools": 150, "waiting": 400, "judges": 300, "other": 500},
        ),
        # Two judges at once take less time than their sum.
        (
            {"execution_metrics": {"duration_ms": 600}, "duration_ms": 1_000, "evaluator_results": [JUDGED, JUDGED]},
            {"target": 600, "judges": 400},
        ),
        # Of a repeated case whose answers are not there, the judges of one answer would mislead.
        (
            {
                "repeat": {"scores": [1, 1], "passes": 2}, "duration_ms": 2_000, "evaluator_results": [JUDGED],
                "execution_metrics": {"duration_ms": 800},
            },
            {"target": 800, "other": 1_200},
        ),
    ],
)  # fmt: skip
def test_the_parts_of_a_case(values: dict[str, Any], parts: dict[str, float]) -> None:
    assert named(parts_of(case(**values))) == parts


def test_answers_have_lanes_on_one_axis() -> None:
    metrics = {"execution_metrics": {"duration_ms": 700}, "evaluator_results": [JUDGED]}
    answers = [
        answer("2026-11-22T10:00:01.000Z", 1_000, **metrics),
        answer("2026-11-22T10:00:01.500Z", 1_000, **metrics, status="fail"),
    ]
    shown = case(repeat={"scores": [1, 0], "passes": 1}, answers=answers)
    assert [(lane["status"], lane["at"]) for lane in lanes_of(shown)] == [("pass", 0), ("fail", 500)]
    assert [named(lane["parts"]) for lane in lanes_of(shown)] == [{"target": 700, "judges": 300}] * 2
    assert named(parts_of(shown)) == {"target": 1_400, "judges": 600}


@pytest.mark.parametrize("end", ["", "yesterday", "0001-01-01T00:00:00.000Z"])
def test_lanes_begin_together_where_a_beginning_is_not_known(end: str) -> None:
    answers = [answer("2026-11-22T10:00:01.000Z", 1_000), answer(end, 1_000)]
    assert ["at" in lane for lane in lanes_of(case(answers=answers))] == [False, False]
    assert ["at" in lane for lane in lanes_of(case(answers=[answers[0], answer(end, None)]))] == [False, False]
