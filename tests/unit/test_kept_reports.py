"""Which of the reports that pytest keeps are let go."""

from types import SimpleNamespace

from pytest_agentv.session.showing.item_outcomes import _ITEMS, EVALUATED, KeptReports


def test_only_phases_of_cases_that_have_nothing_to_show_are_let_go():
    silent = SimpleNamespace(sections=[], **{EVALUATED: True})
    spoke = SimpleNamespace(sections=[("Captured stdout teardown", "x")], **{EVALUATED: False})
    foreign = SimpleNamespace(sections=[])
    call = SimpleNamespace(sections=[], **{EVALUATED: False})
    stats = {"": [silent, spoke, foreign], "passed": [call]}
    kept = KeptReports(SimpleNamespace(stats=stats))
    for _ in range(_ITEMS):
        assert stats[""] == [silent, spoke, foreign]
        kept.pytest_runtest_logfinish()
    assert stats == {"": [spoke, foreign], "passed": [call]}
