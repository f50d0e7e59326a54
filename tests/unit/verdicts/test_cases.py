"""Cases read from results of any origin."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.results import EvalResult, RepeatFigures
from pytest_agentv.reports.figures import ended_at
from pytest_agentv.reports.judged_cases import (
    cases_of_run,
    pair_cases,
    shared_key,
)
from pytest_agentv.reports.reading import baseline_of, baseline_text, case_in, read_view, result_fault
from pytest_agentv.reports.verdict import run_statistics
from pytest_agentv.session.judged_cases import JudgedCases

REPEAT = RepeatFigures(
    planned=5,
    asked=4,
    judged=3,
    passes=2,
    errors=1,
    needed=4,
    min_pass_rate=0.8,
    min_pass_rate_source="file",
    scores=(1.0, 0.9, 0.4),
    stopped="certain fail",
    same_text=False,
    tools=(("a",), (), ()),
    cached=1,
)


def result(**changes):
    return EvalResult("t", "tent", "d", 0.7, (), (), "an answer", "azure", eval_file="a.yaml", threshold=0.8, **changes)


def test_what_a_run_holds_and_what_its_file_holds_is_the_same(tmp_path):
    path = tmp_path / "r.jsonl"
    both = [result(repeat=REPEAT, node_id="a.yaml::tent"), result(node_id="a.yaml::tent-2", conversation_id="talk")]
    path.write_text("".join(json.dumps(each.to_plain()) + "\n" for each in both))
    view = read_view(path)
    assert (list(view.cases), view.problems) == (cases_of_run(both), ())
    assert view.results == tuple(both)
    assert [case.name for case in cases_of_run(both)] == ["a.yaml::tent", "a.yaml::tent-2::tent"]
    assert cases_of_run(both)[1].group == "talk"


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"score": 1}, "the result has no eval_id: expected a text, got null"),
        ({"eval_id": "a", "score": "1"}, "the result of 'a' has no score: expected a number, got the text '1'"),
        ({"eval_id": "a", "score": 87}, "the result of 'a' has the score 87 and no threshold: expected 0 to 1"),
    ],
)
def test_what_is_no_result_is_told(tmp_path, value, fault):
    assert result_fault(value) == fault
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(value) + '\n{"eval_id": "b", "score": 1}\n')
    view = read_view(path)
    assert [case.eval_id for case in view.cases] == ["b"]
    assert view.problems == (f"{path}:1: {fault}; it was skipped",)


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        ("2026-11-22T10:00:00", datetime(2026, 11, 22, 10, tzinfo=UTC)),
        ("2026-11-22T10:00:00+02:00", datetime(2026, 11, 22, 8, tzinfo=UTC)),
        ("yesterday", None),
    ],
)
def test_a_time_without_a_zone_is_in_utc(text, ended):
    found = ended_at(text)
    assert found == ended
    assert found is None or found.tzinfo is not None


def of_test(number, **changes):
    """Return the result of a test with parameters that gives all of its cases one id."""
    return result(**{"node_id": f"t.py::test[{number}]", **changes}).replace(eval_file="t.py")


def test_a_test_is_the_same_case_whichever_others_of_its_id_are_in_the_run():
    alone, both = cases_of_run([of_test(1)]), cases_of_run([of_test(0), of_test(1)])
    assert alone[0].name != both[1].name
    assert alone[0].key == both[1].key == ("t.py::test[1]::tent", "azure")
    assert len({case.key for case in both}) == 2
    pairing = pair_cases(alone, both, shared_key(alone, both))
    assert ([pair.old for pair in pairing.pairs], pairing.gone, pairing.new) == ([both[1]], (both[0],), ())


@pytest.mark.parametrize("node_id", ["t.py::test[1]", "a.yaml::tent-2"])
def test_a_suspect_is_asked_again_although_others_have_its_id(tmp_path, node_id):
    file = node_id.partition("::")[0]
    first = result(node_id=f"{file}::tent", repeat=REPEAT.replace(scores=(0.1,) * 5, passes=0, judged=5, stopped=None))
    good = result(node_id=node_id, repeat=REPEAT.replace(scores=(1.0,) * 5, passes=5, judged=5, stopped=None))
    before = [each.replace(eval_file=file) for each in (first, good)]
    path = tmp_path / "base.jsonl"
    path.write_text(baseline_text(baseline_of(cases_of_run(before))))
    config = SimpleNamespace(stash=pytest.Stash(), args=[], getoption=lambda _, default: default)
    bad = good.replace(repeat=first.repeat, eval_file=file)
    answers = [JudgedCases(config, RunOptions(baseline=path)).fresh_answers(each, 0) for each in (bad, *before)]
    assert answers == [10, 0, 0]


@pytest.mark.parametrize(
    "others",
    [
        *({"repeat": 3}, {"repeat": "3"}, {"repeat": [1]}, {"repeat": {}}, {"repeat": {"scores": [1, None]}}),
        *({"repeat": {"passes": -3}}, {"repeat": {"passes": None}}, {"repeat": {"asked": "x", "planned": []}}),
        *({"repeat": {"stopped": [1]}}, {"repeat": {"confirm": 5}}, {"repeat": {"confirm": {"asked": 1}}}),
        *({"repeat": {"confirm": {"asked": a, "judged": b, "passes": c}}} for a, b, c in ((9, 5, 6), (5, 9, 3))),
        *({"repeat": {"tools": 5}}, {"repeat": {"tools": [1, 2]}}, {"repeat": {"same_text": "x"}}),
        *({"tags": 5}, {"tags": "abc"}, {"group": {}}, {"conversation_id": [5]}, {"status": ["pass"]}),
        *({"eval_file": 5}, {"target": ["x"]}, {"node_id": 5}, {"case_hash": 3}, {"required": "no"}),
    ],
)
def test_what_another_tool_writes_under_our_keys_ends_nothing(others):
    value = {"eval_id": "a", "score": 0.9, "threshold": 0.8, **others}
    assert result_fault(value) is None
    case = case_in(value)
    assert (case.name, case.scores, case.passes, case.asked) == ("a", (0.9,), 1, 1)
    assert (case.group, case.tags, case.required, case.confirmation, case.stopped) == (None, (), False, None, None)
    assert run_statistics([case, case]).rate.mean == 1
