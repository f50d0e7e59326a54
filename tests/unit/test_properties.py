"""The figures of cases that JUnit and other reporters are told."""

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_agentv.model.messages import ExecutionMetrics, JudgeMetrics
from pytest_agentv.model.results import EvalResult, RepeatFigures
from pytest_agentv.reports.junit import place_properties, result_properties
from pytest_agentv.session.showing.item_outcomes import add_properties, forget_properties

RESULT = EvalResult("t", "a", "shop", 0.5, (), (), "", "default", threshold=0.8, attempts=1, duration_ms=7.5)


def test_the_properties_that_cases_share_are_one_object() -> None:
    first, second = (place_properties("a.eval.yaml", line) + result_properties(RESULT) for line in (1, 2))
    assert dict(first) == {
        "agentv_file": "a.eval.yaml",
        "agentv_line": 1,
        "agentv_status": "pass",
        "agentv_score": 0.5,
        "agentv_threshold": 0.8,
        "agentv_target": "default",
        "agentv_attempts": 1,
        "agentv_duration_ms": 7.5,
    }
    own = [
        name for (name, _), of_first, of_second in zip(first, first, second, strict=True) if of_first is not of_second
    ]
    assert own == ["agentv_line", "agentv_duration_ms"]


def test_a_score_of_one_is_no_number_of_attempts() -> None:
    whole = dict(result_properties(RESULT.replace(score=1.0)))
    assert [type(whole[name]) for name in ("agentv_score", "agentv_attempts")] == [float, int]


def test_what_judges_cost_is_told_apart_from_the_answer() -> None:
    judged = RESULT.replace(
        execution_metrics=ExecutionMetrics(cost_usd=0.02), judge_metrics=JudgeMetrics(1, cost_usd=0.5)
    )
    assert dict(result_properties(judged)).items() >= {"agentv_cost_usd": 0.02, "agentv_judge_cost_usd": 0.5}.items()
    assert "agentv_judge_cost_usd" not in dict(result_properties(RESULT.replace(judge_metrics=JudgeMetrics(1))))


@pytest.mark.parametrize(("planned", "told"), [(5, "certain pass"), (3, None)])
def test_a_case_that_was_asked_in_full_did_not_stop(planned: int, told: str | None) -> None:
    repeat = RepeatFigures(
        planned,
        asked=3,
        judged=2,
        passes=2,
        errors=1,
        needed=2,
        min_pass_rate=0.4,
        min_pass_rate_source="file",
        scores=(1.0, 1.0),
        stopped="certain pass",
    )
    found = dict(result_properties(RESULT.replace(repeat=repeat)))
    assert (found["agentv_repeat"], found["agentv_judged"], found.get("agentv_stopped")) == (planned, 2, told)


def test_properties_of_others_stay_when_an_item_is_run_again() -> None:
    foreign: list[Any] = [("ticket", "A-1"), ("agentv_owner", "me"), ("score", 1), "odd"]
    item: Any = SimpleNamespace(user_properties=foreign.copy())
    add_properties(item, [*place_properties("a.eval.yaml", 1), ("agentv_score_tone", 0.5)])
    add_properties(item, result_properties(RESULT.replace(judge_metrics=JudgeMetrics(1, cost_usd=0.5))))
    forget_properties(item)
    assert item.user_properties == foreign
