"""Checks in runs of pytest: short forms, sentences, what is required, and how results change with a check's code."""

import json

import pytest

SUITE = """
evalcases:
  - id: good
    expected_outcome: o
    input: q
    assert:
      - contains: 30 days
      - not-contains: sorry
      - {word: "30", required: true}
      - Names the period
      - {python: "checks.py:is_short"}
      - Is polite
  - id: unmet
    expected_outcome: o
    input: q
    threshold: 0.1
    assert: [{contains: 30 days}, {contains: rocket, required: true, weight: 0}]
  - id: part
    expected_outcome: o
    input: q
    assert: [{contains: x, path: "items[0]"}]
  - {id: wrong, expected_outcome: o, input: q, assert: [{regex: "("}]}
"""
CODE = """
import json


def answer(prompt):
    return "You may return it within 30 days."


def judge(prompt):
    with open("asked.txt", "a") as file:
        file.write("asked\\n")
    checks = [{"id": f"statement-{n}", "satisfied": n == 1, "reasoning": ""} for n in (1, 2)]
    return json.dumps({"checks": checks, "overall_reasoning": "so"})
"""
TARGETS = """
targets:
  - {name: default, provider: python, callable: "shop.py:answer", judge_target: judge}
  - {name: judge, provider: python, callable: "shop.py:judge"}
"""


@pytest.fixture
def shop(project):
    project.write("a.eval.yaml", SUITE)
    project.write("shop.py", CODE)
    project.write("checks.py", "def is_short(answer):\n    return len(answer) < 100\n")
    project.write("targets.yaml", TARGETS)
    return project


def test_a_run_of_checks(shop):
    run = shop.run()
    good = run.by_id["good"]
    names = [(each["name"], each["type"], each["score"], each["weight"]) for each in good["evaluator_results"]]
    assert names == [
        ("contains: 30 days", "contains", 1, 1),
        ("not-contains: sorry", "contains", 1, 1),
        ("word: 30", "word", 1, 1),
        ("statements: 2 sentences", "statements", 0.5, 2),
        ("python: checks.py:is_short", "python", 1, 1),
    ]
    assert good["score"] == pytest.approx(5 / 6), "as if each sentence stood by itself"
    members = good["evaluator_results"][3]["evaluator_results"]
    assert [(each["name"], each["score"]) for each in members] == [("Names the period", 1), ("Is polite", 0)]
    assert (shop.path / "asked.txt").read_text() == "asked\n", "one call for all sentences"

    unmet = run.by_id["unmet"]
    assert (unmet["status"], unmet["score"]) == ("fail", 1)
    assert unmet["unmet_required"] == ['contains: rocket: lacks "rocket"']
    assert unmet["evaluator_results"][1]["required"] is True
    assert 'Required check not met: contains: rocket: lacks "rocket"' in "\n".join(run.lines)

    assert run.by_id["part"]["misses"] == ["items[0] is missing: the answer holds no JSON"]
    assert run.by_id["wrong"]["error"].startswith("a.eval.yaml:21: evalcases[3].assert[0].regex: '(' is no regular ")


def test_a_changed_function_is_judged_again_on_resume(shop):
    shop.write("a.eval.yaml", SUITE.partition("  - id: unmet")[0].replace("      - Is polite\n", ""))
    first = shop.run()
    assert first.by_id["good"]["status"] == "pass"
    earlier = f"--agentv-resume={shop.path / 'out-1.jsonl'}"
    shop.run(earlier)
    assert (shop.path / "asked.txt").read_text() == "asked\n"
    shop.write("checks.py", "def is_short(answer):\n    return len(answer) < 5\n")
    shop.run(earlier)
    assert (shop.path / "asked.txt").read_text() == "asked\nasked\n"


def test_checks_of_python_evals(shop):
    shop.write(
        "test_refunds.py",
        """
from pytest_agentv import AnswerField, Contains, Equals, PythonCheck, Regex, ToolCalled


def test_objects(agentv):
    checks = [Contains(value="30"), Regex(value="d.ys"), {"not-contains": "x"}, PythonCheck(value="len(answer) > 3")]
    result = agentv.run("q", evaluators=checks)
    assert result.passed
    assert [each.name for each in result.evaluator_results] == [
        "contains: 30", "regex: d.ys", "not-contains: x", "python: len(answer) > 3"
    ]


def test_data(agentv):
    field = AnswerField(path="items[0].price", check=Equals(value=3))
    assert agentv.evaluate({"items": [{"price": 3}]}, evaluators=[field, {"not-field": "error"}]).passed
    assert not agentv.evaluate("{}", evaluators=[field]).passed
    calls = [{"role": "assistant", "content": "x", "tool_calls": [{"tool": "search", "input": {}}]}]
    assert agentv.evaluate("x", output_messages=calls, evaluators=[ToolCalled(value="search")]).passed


def test_sentences(agentv):
    assert agentv.run("q", evaluators=["Names the period"], expected_outcome="o").score == 1
""",
    )
    shop.write("shop.py", CODE.replace("(1, 2)", "(1,)"))
    run = shop.run("test_refunds.py")
    assert "3 passed" in "\n".join(run.lines)


def test_secrets_show_in_no_finding_and_no_name(shop, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "sk-abcdefgh12345678")
    shop.write(
        "a.eval.yaml", "evalcases: [{id: a, expected_outcome: o, input: q, assert: [equals: sk-abcdefgh12345678]}]"
    )
    run = shop.run()
    assert "sk-abcdefgh12345678" not in json.dumps(run.by_id["a"]["evaluator_results"]) + "\n".join(run.lines)
    assert run.by_id["a"]["evaluator_results"][0]["name"] == "equals: ***"


def test_workers_and_a_dry_run_judge_alike(shop):
    run = shop.run("-n", "2")
    assert {name: each["status"] for name, each in run.by_id.items()} == {
        "good": "fail",
        "unmet": "fail",
        "part": "fail",
        "wrong": "error",
    }
    dry = shop.run("--agentv-dry-run")
    assert {name: each["status"] for name, each in dry.by_id.items()} == {
        "good": "pass",
        "unmet": "pass",
        "part": "pass",
        "wrong": "error",
    }
