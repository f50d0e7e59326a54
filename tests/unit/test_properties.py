"""The figures of cases that JUnit and other reporters are told."""

from types import SimpleNamespace
from typing import Any

from pytest_agentv.model.messages import JudgeMetrics
from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.junit import place_properties, result_properties
from pytest_agentv.session.showing.item_outcomes import add_properties, forget_properties

RESULT = EvalResult("t", "a", "shop", 0.5, (), (), "", "default", threshold=0.8, attempts=1, duration_ms=7.5)


def test_properties_of_others_stay_when_an_item_is_run_again() -> None:
    foreign: list[Any] = [("ticket", "A-1"), ("agentv_owner", "me"), ("score", 1), "odd"]
    item: Any = SimpleNamespace(user_properties=foreign.copy())
    add_properties(item, [*place_properties("a.eval.yaml", 1), ("agentv_score_tone", 0.5)])
    add_properties(item, result_properties(RESULT.replace(judge_metrics=JudgeMetrics(1, cost_usd=0.5))))
    forget_properties(item)
    assert item.user_properties == foreign
