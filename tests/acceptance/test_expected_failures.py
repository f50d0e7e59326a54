"""What the results file says of cases that a mark `xfail` expects to fail, in a resumed run and of repeated ones."""

import json
from typing import Any

import pytest

from .conftest import WITH_WORKERS_ON_REQUEST, Project

TARGETS = "targets: [{name: default, provider: mock, response: hello}]"
AGENT = """
def answer(prompt):
    with open("asked", "a") as file:
        file.write("x")
    return "hello"
"""
CASE = "expected_outcome: x, input: hi, evaluators: [{contains: %s}]"
FAILS, PASSES = CASE % "nothing", CASE % "hello"
EVALS = f"""
evalcases:
  - {{id: good, {PASSES}}}
  - {{id: known, xfail: a known gap, {FAILS}}}
"""


@pytest.fixture
def shop(project_in_all_modes: Project) -> Project:
    project_in_all_modes.write("targets.yaml", TARGETS)
    project_in_all_modes.write("a.eval.yaml", EVALS)
    return project_in_all_modes


def marks_of(results: list[dict[str, Any]]) -> dict[str, tuple[Any, Any]]:
    return {each["eval_id"]: (each.get("xfail"), each.get("xfail_strict")) for each in results}


@WITH_WORKERS_ON_REQUEST
def test_a_resumed_run_records_the_marks_of_now_and_asks_nothing(shop: Project) -> None:
    shop.write("agent.py", AGENT)
    shop.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]")
    shop.run()
    shop.write("a.eval.yaml", EVALS.replace(" xfail: a known gap,", ""))
    run = shop.run("--agentv-resume=out-1.jsonl")
    assert run.outcomes == {"passed": 1, "failed": 1}
    assert marks_of(run.results) == {"good": (None, None), "known": (None, None)}
    shop.write("a.eval.yaml", EVALS)
    again = shop.run("--agentv-resume=out-2.jsonl", "--agentv-out=out-2.jsonl")
    assert again.outcomes == {"passed": 1, "xfailed": 1}
    lines = [json.loads(line) for line in (shop.path / "out-2.jsonl").read_text("utf-8").splitlines()]
    assert [each.get("xfail") for each in lines if each["eval_id"] == "known"][-1] == "a known gap"
    assert (shop.path / "asked").read_text() == "xx"


@WITH_WORKERS_ON_REQUEST
def test_a_repeated_case_and_a_test_have_the_mark_too_and_its_reason_holds_no_secret(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-not-to-be-seen-4711-4711-4711"
    monkeypatch.setenv("SHOP_API_KEY", secret)
    shop.write("a.eval.yaml", EVALS.replace("a known gap", f"a known gap {secret}"))
    shop.write(
        "test_it.py",
        """
        import pytest

        @pytest.mark.xfail(reason="in Python")
        def test_it(agentv):
            assert agentv.run("hi", evaluators=[{"contains": "nothing"}])
        """,
    )
    run = shop.run("--agentv-repeat=2", "--agentv-stop=never", "--agentv-include-answers")
    assert run.outcomes == {"passed": 1, "xfailed": 2}
    assert marks_of(run.results) == {
        "good": (None, None),
        "known": ("a known gap ***", None),
        "test_it": ("in Python", None),
    }
    assert "xfail" not in run.by_id["known"]["answers"][0]
    assert secret not in run.text
