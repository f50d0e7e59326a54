"""The verdict beside a results file: what it tells, and when it is not on these results."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from views import view_of_results

from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.ci import code_quality, comment_lines, junit_xml
from pytest_agentv.reports.gates import read_contract
from pytest_agentv.reports.judged_cases import JudgedCase
from pytest_agentv.reports.reading import case_in
from pytest_agentv.reports.verdict import run_statistics
from pytest_agentv.reports.view import AS_JUDGED, Ending, GateOutcome, ending_of

GATE = {"name": "agentv.baseline.jsonl::regression", "failed": True, "reason": "12 cases are broken"}
PASSED = GATE | {"failed": False}
RED = GateOutcome("agentv.baseline.jsonl::regression", is_red=True, reason="12 cases are broken", is_told=True)
TOLD = RED.replace(is_red=False)
GREEN = TOLD.replace(is_told=False)
FITTING = {"verdict": "broken", "n": 2, "mean": 0.5, "errors": ["c"]}


def cases() -> list[JudgedCase]:
    values: list[dict[str, Any]] = [
        {"eval_id": "a", "score": 1, "threshold": 1},
        {"eval_id": "b", "score": 0, "threshold": 1},
        {"eval_id": "c", "score": 0, "error": "broke", "status": "error"},
    ]
    return list(map(case_in, values))


@pytest.mark.parametrize(
    ("contract", "ending"),
    [
        (None, AS_JUDGED),
        ({"verdict": "broken", "gate": "cases", "gates": [GATE]}, Ending(red=("12 cases are broken",), gates=(RED,))),
        (
            {"verdict": "broken", "gate": "run", "gates": [PASSED], "judged_with_run": ["a::b"]},
            Ending(replaces_cases=True, judged_with_run=frozenset({"a::b"}), gates=(GREEN,)),
        ),
        (
            {"verdict": "no verdict", "reasons": ["a worker crashed"], "gate": "run", "gates": [GATE]},
            Ending(red=("12 cases are broken",), unjudged="a worker crashed", gates=(RED,)),
        ),
    ],
)
def test_what_a_verdict_tells(contract: Any, ending: Ending) -> None:
    assert ending_of(contract) == ending


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        (json.dumps(FITTING), True),
        (json.dumps(FITTING | {"n": 3}), False),
        (json.dumps(FITTING | {"mean": 1}), False),
        (json.dumps(FITTING | {"errors": []}), False),
    ],
)
def test_a_verdict_on_other_results_is_left_out(tmp_path: Path, text: str | None, *, is_read: bool) -> None:
    if text is not None:
        (tmp_path / "run.verdict.json").write_text(text, "utf-8")
    assert (read_contract(tmp_path / "run.jsonl", cases()) is not None) == is_read


@pytest.mark.parametrize(
    ("errors", "is_read"),
    [
        (["a (gpt)", "a (claude)"], True),
        (["a (gpt)"], False),
    ],
)
def test_a_verdict_may_name_the_targets_of_errors(tmp_path: Path, errors: list[str], *, is_read: bool) -> None:
    down = {"eval_id": "a", "score": 0, "error": "broke", "status": "error"}
    found = [case_in(down | {"target": target}) for target in ("gpt", "claude")]
    (tmp_path / "run.verdict.json").write_text(json.dumps({"verdict": "errors", "errors": errors}), "utf-8")
    assert (read_contract(tmp_path / "run.jsonl", found) is not None) == is_read
    contract = run_statistics(found).contract()
    (tmp_path / "run.verdict.json").write_text(json.dumps(contract), "utf-8")
    assert read_contract(tmp_path / "run.jsonl", found) == contract


def result(eval_id: str, score: float, **values: Any) -> EvalResult:
    status = "pass" if score else "fail"
    return EvalResult("t", eval_id, "d", score, (), (), "answer", "t", status=status, node_id=f"a::{eval_id}", **values)


@pytest.mark.parametrize(
    ("ending", "head"),
    [
        (AS_JUDGED, "## ❌ Evaluations: 1 passed, 1 failed"),
        (
            Ending(("12 cases are broken",), True, frozenset({"a::b"})),
            "## ❌ Evaluations: 1 passed, 1 judged with the run",
        ),
        (
            Ending(replaces_cases=True, judged_with_run=frozenset({"a::b"})),
            "## ✅ Evaluations: 1 passed, 1 judged with the run",
        ),
        (Ending(replaces_cases=True, judged_with_run=frozenset({"a::x"})), "## ❌ Evaluations: 1 passed, 1 failed"),
    ],
)
def test_the_comment_has_the_verdict_of_the_gates(ending: Ending, head: str) -> None:
    lines = list(comment_lines(view_of_results(result("a", 1), result("b", 0), ending=ending), None, Masker()))
    assert lines[1] == head
    assert ("- The gate failed: `12 cases are broken`" in lines) == bool(ending.red)


def test_junit_and_code_quality_have_the_verdict_of_the_gates() -> None:
    results = (result("a", 1), result("b", 0), result("c", 0), result("d", 0, required=True))
    ending = Ending(
        ("12 cases are broken",),
        replaces_cases=True,
        judged_with_run=frozenset({"a::b", "a::d"}),
        gates=(TOLD, RED, GREEN),
    )
    run = view_of_results(*results, ending=ending)
    [suite] = ElementTree.fromstring(junit_xml(run, Masker()))
    assert [suite.get(name) for name in ("tests", "failures", "skipped", "errors")] == ["7", "3", "2", "0"]
    kinds = {f"{case.get('classname')} {case.get('name')}": [child.tag for child in case][-1:] for case in suite}
    assert kinds["d b"] == ["skipped"]
    assert kinds["d c"] == kinds["d d"] == ["failure"]
    assert [[each.tag for each in gate] for gate in suite[-3:]] == [["skipped"], ["failure"], []]
    assert (suite[-2].get("classname"), suite[-2].get("name")) == ("agentv.baseline.jsonl", "regression")
    assert suite[-2][0].get("message") == "12 cases are broken"
    told = [each["description"] for each in code_quality(run, Masker())]
    assert told == ["a::c: the score is too low", "a::d: the score is too low"]
