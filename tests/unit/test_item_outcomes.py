"""What items and their reports keep."""

from types import SimpleNamespace
from typing import Any

from pytest_agentv.model.messages import Costs
from pytest_agentv.model.results import EvalResult, Spent
from pytest_agentv.reports.figures import place_properties, result_properties
from pytest_agentv.session.compat import drop_phases
from pytest_agentv.session.item_outcomes import EVALUATED, forget_properties

RESULT = EvalResult("t", "a", "shop", 0.5, (), (), "", "default", threshold=0.8, attempts=1, duration_ms=7.5)


def test_properties_of_others_stay_when_an_item_is_run_again() -> None:
    foreign: list[Any] = [("ticket", "A-1"), ("agentv_owner", "me"), ("score", 1), "odd"]
    item: Any = SimpleNamespace(user_properties=foreign.copy())
    item.user_properties += [*place_properties("a.eval.yaml", 1), ("agentv_score_tone", 0.5)]
    item.user_properties += result_properties(RESULT.replace(spent=Spent(judge=Costs.of_call(None, 0.5))))
    forget_properties(item)
    assert item.user_properties == foreign


def test_only_phases_of_cases_that_have_nothing_to_show_are_let_go():
    silent = SimpleNamespace(sections=[], **{EVALUATED: True})
    spoke = SimpleNamespace(sections=[("Captured stdout teardown", "x")], **{EVALUATED: False})
    foreign = SimpleNamespace(sections=[])
    call = SimpleNamespace(sections=[], **{EVALUATED: False})
    stats = {"": [silent, spoke, foreign], "passed": [call]}
    drop_phases(SimpleNamespace(stats=stats), EVALUATED)
    assert stats == {"": [spoke, foreign], "passed": [call]}
