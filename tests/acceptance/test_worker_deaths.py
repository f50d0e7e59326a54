"""Workers of xdist that die within an item."""

import json

import pytest
from scripted_agent import numbered, read_calls, write_agent, write_cases
from thorough import varied

pytestmark = pytest.mark.kills


@pytest.fixture
def project(project):
    write_agent(project)
    return project


DIES_AFTER_THE_CASE = """
import os

def pytest_runtest_teardown(item):
    if item.nodeid.endswith("::case-0"):
        os._exit(3)
"""


def test_a_crash_after_a_case_was_judged_is_told_as_a_crash_and_its_result_stands(project):
    project.write("conftest.py", DIES_AFTER_THE_CASE)
    write_cases(project, numbered(3))
    run = project.run("-n2")
    assert (run.exit_code, run.internals) == (pytest.ExitCode.TESTS_FAILED, [])
    assert run.statuses == dict.fromkeys(numbered(3), "pass")
    assert len(run.results) == 3
    assert "FAILED a.eval.yaml::case-0" in run.text


@pytest.mark.parametrize(
    ("before", "outcomes"),
    [("say hello", {"passed": 3}), varied("fail it was down", {"passed": 2, "errors": 1})],
    ids=str,
)
def test_a_crash_on_a_case_is_its_result_whatever_an_earlier_run_has_recorded(project, before, outcomes):
    """What an earlier run had recorded stood in the summary, for the crash of an edited case as well."""
    write_cases(project, {**numbered(3), "case-0": before})
    assert project.run("-n2", "--agentv-out=own.jsonl").outcomes == outcomes
    write_cases(project, {**numbered(3), "case-0": "die_once mark"})
    own = ("-n2", "--agentv-out=own.jsonl", "--agentv-resume=own.jsonl", "--agentv-retry-errors")
    run = project.run(*own)
    assert (run.exit_code, run.internals) == (pytest.ExitCode.TESTS_FAILED, [])
    assert "Total eval cases: 3 (2 passed, 0 failed, 1 error)" in run.lines
    last = json.loads((project.path / "own.jsonl").read_text().splitlines()[-1])
    assert (last["eval_id"], last["status"], last["error_detail"]["kind"]) == ("case-0", "error", "crash")
    assert project.run(*own).outcomes == {"passed": 3}


def test_a_crash_after_a_case_was_carried_over_is_its_result_until_the_next_run_carries_it_over(project):
    write_cases(project, numbered(3))
    assert project.run("-n2", "--agentv-out=own.jsonl").outcomes == {"passed": 3}
    project.write("conftest.py", DIES_AFTER_THE_CASE)
    own = ("-n2", "--agentv-out=own.jsonl", "--agentv-resume=own.jsonl")
    run = project.run(*own)
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    assert "Total eval cases: 3 (2 passed, 0 failed, 1 error)" in run.lines
    (project.path / "conftest.py").unlink()
    assert project.run(*own).outcomes == {"passed": 3}
    assert len(read_calls(project.path).started) == 3


@pytest.mark.parametrize("flag", [varied("-x"), "--maxfail=2"])
def test_a_crash_counts_for_the_failures_that_end_a_run(project, flag):
    """xdist does not count it, and went on to the last case, which costs money."""
    project.write("conftest.py", DIES_AFTER_THE_CASE)
    others = {"case-0": "say hello", "case-10": "say hello" if flag == "-x" else "say nothing"}
    write_cases(project, {**dict.fromkeys(numbered(40), "sleep 0.1; say hello"), **others})
    run = project.run("-n2", flag)
    assert (run.exit_code, run.internals) == (pytest.ExitCode.INTERRUPTED, [])
    assert len(run.results) < 30
    assert f"stopping after {flag[-1] if '=' in flag else 1} failures" in run.text
    assert "not run" not in run.text
