"""What a run says at its end."""

import re

import pytest

from .conftest import SLOW_WITH_WORKERS

ECHO = "targets: [{name: default, provider: python, callable: agent.py:answer}]\n"

AGENT = """
def answer(prompt):
    if prompt == "break":
        raise RuntimeError("out of order")
    return {"text": prompt, "token_usage": {"input": 1000, "output": 1}, "cost_usd": 0.02}
"""


def scored(**scores):
    """Return an eval file whose cases get these scores; `None`: the target breaks."""
    cases = [
        f"  - id: {eval_id}\n    expected_outcome: o\n"
        f"    input_messages: [{{role: user, content: {'break' if score is None else 'hello'}}}]\n"
        f"    evaluators:\n"
        f"      - {{name: right, type: heuristic, hits: [hello], weight: {score or 0}}}\n"
        f"      - {{name: wrong, type: heuristic, hits: [nowhere], weight: {1 - (score or 0)}}}\n"
        for eval_id, score in scores.items()
    ]
    return "threshold: 0.5\nevalcases:\n" + "".join(cases)


@pytest.fixture
def shop(project):
    project.write("targets.yaml", ECHO)
    project.write("agent.py", AGENT)
    return project


def test_a_case_that_cannot_be_asked_is_no_rerun_however_often_the_run_is_resumed(shop):
    bad = "  - {id: b, expected_outcome: o, input: hello, evaluators: [{contians: q}]}\n"
    shop.write("a.eval.yaml", scored(a=1) + bad)
    flags = ("--agentv-out=own.jsonl", "--agentv-resume=own.jsonl")
    runs = [shop.run(flags[0]), *(shop.run(*flags, mode=mode) for mode in ((), ("-n", "2")))]
    for run in runs:
        assert run.outcomes == {"passed": 1, "errors": 1}
        assert "Cost:             $0.0200" in run.lines
        assert "Reruns" not in run.text
    shop.write("a.eval.yaml", scored(a=1) + bad.replace("contians", "contains"))
    run = shop.run(*flags)
    assert "Cost:             $0.0400" in run.lines
    assert "Reruns" not in run.text


FLAKY = """
from pathlib import Path


def answer(prompt):
    calls = Path(__file__).with_name("calls")
    count = len(calls.read_text()) if calls.exists() else 0
    calls.write_text("x" * (count + 1))
    text = "nothing" if count < 4 else "hello"
    return {"text": text, "token_usage": {"input": 1000, "output": 1}, "cost_usd": 0.02}
"""


@SLOW_WITH_WORKERS
def test_what_reruns_cost_is_counted_and_each_of_them_has_a_record(shop, mode):
    shop.write("agent.py", FLAKY)
    shop.write("a.eval.yaml", scored(a=1))
    run = shop.run("--reruns=7", mode=mode)
    assert run.outcomes == {"passed": 1, "rerun": 4}
    assert [result["status"] for result in run.results] == ["fail"] * 4 + ["pass"]
    assert {"Cost:             $0.1000", "Tokens:           5,005 (5,000 in, 5 out)", "Reruns:           4"} < {
        *run.lines
    }
    assert "Total eval cases: 1 (1 passed, 0 failed, 0 errors)" in run.lines
    assert "Mean score:       1.000" in run.lines
    resumed = shop.run("--agentv-resume=out-1.jsonl", "--agentv-out=out-1.jsonl", mode=mode)
    assert resumed.outcomes == {"passed": 1}
    assert len((shop.path / "calls").read_text()) == 5


SLOW = """
import time

def answer(prompt):
    time.sleep(0.02)
    return prompt
"""


@pytest.mark.parametrize(
    ("flags", "is_told"), [((), True), (("--agentv-workers=2",), False), (("--agentv-dry-run",), False)]
)
def test_a_run_that_waited_for_one_case_after_another_says_so(shop, monkeypatch, flags, is_told):
    monkeypatch.setattr("pytest_agentv.reports.summary._LEAST_MS", 1)
    monkeypatch.setattr("pytest_agentv.reports.summary._LEAST_SHARE", 0)
    shop.write("agent.py", SLOW)
    shop.write("a.eval.yaml", scored(a=1, b=1, c=1, d=1, e=1))
    told = [line for line in shop.run(*flags).lines if "one after another" in line]
    assert len(told) == is_told
    assert not told or re.fullmatch(r"5 cases one after another, \d+ % waiting: try --agentv-workers=5", told[0])


SET_UP = "import pytest\ndef pytest_runtest_setup(item): pass\n"
FIXTURE = "import pytest\n@pytest.fixture(autouse=True, scope='{}')\ndef shop(): return 1\n"


@pytest.mark.parametrize(
    ("conftest", "holder"),
    [
        (SET_UP, "conftest.py has the hook pytest_runtest_setup"),
        (FIXTURE.format("function"), "a conftest.py has the fixture shop of function scope"),
        (FIXTURE.format("session"), None),
    ],
    ids=["hook", "fixture", "session fixture"],
)
def test_a_run_whose_cases_a_conftest_holds_is_told_of_it_and_of_no_workers(shop, monkeypatch, conftest, holder):
    monkeypatch.setattr("pytest_agentv.reports.summary._LEAST_MS", 1)
    monkeypatch.setattr("pytest_agentv.reports.summary._LEAST_SHARE", 0)
    shop.write("conftest.py", conftest)
    shop.write("targets.yaml", ECHO.replace("}", ", workers: 2}" if holder else "}"))
    shop.write("agent.py", SLOW)
    shop.write("a.eval.yaml", scored(a=1, b=1, c=1, d=1, e=1))
    told = [line for line in shop.run().lines if "one after another" in line]
    if holder is None:
        assert ["try --agentv-workers" in line for line in told] == [True]
    else:
        assert [line.partition(", which")[0] for line in told] == [f"cases ran one after another, because {holder}"]


def test_tests_in_python_that_waited_are_told_nothing_of_workers_that_do_not_reach_them(shop, monkeypatch):
    monkeypatch.setattr("pytest_agentv.reports.summary._LEAST_MS", 1)
    monkeypatch.setattr("pytest_agentv.reports.summary._LEAST_SHARE", 0)
    shop.write("agent.py", SLOW)
    shop.write("a.eval.yaml", scored(a=1))
    tests = "".join(f"def test_{name}(agentv):\n    assert agentv.run('say 1')\n" for name in "bcdef")
    shop.write("test_shop.py", tests)
    run = shop.run()
    assert len(run.results) == 6
    assert "one after another" not in run.text
