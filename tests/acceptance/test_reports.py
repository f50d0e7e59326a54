"""What pytest reports of eval cases: texts of failures, durations, reruns."""

import json
import os
import re
import sys

import pytest
import warm
from thorough import varied

from .conftest import WITH_WORKERS_ON_REQUEST

TARGETS = """
targets:
  - name: default
    provider: cli
    command_template: echo hello world
  - name: slow
    provider: cli
    command_template: sleep 0.9; echo hello world
  - name: exits
    provider: cli
    command_template: echo out of order >&2; exit 3
"""
CASE = """
evalcases:
  - id: good
    expected_outcome: x
    input: Say it
    evaluators: [{name: words, type: heuristic, hits: [hello]}]
  - id: bad
    expected_outcome: x
    input: Say it
    evaluators: [{name: words, type: heuristic, hits: [hello, nothing]}]
  - id: broken
    expected_outcome: x
    input: Say it
    execution: {target: exits}
    evaluators: [{name: words, type: heuristic, hits: [hello]}]
"""


@pytest.fixture
def project(project):
    project.write("targets.yaml", TARGETS)
    project.write("evals/qa.eval.yaml", CASE)
    return project


def block(run, heading):
    """Return the text below a heading of a failure."""
    start = next(index for index, line in enumerate(run.lines) if re.fullmatch(rf"_+ {re.escape(heading)} _+", line))
    end = next(index for index in range(start + 1, len(run.lines)) if re.match(r"_{3,} |={3,} ", run.lines[index]))
    return "\n".join(line for line in run.lines[start + 1 : end] if not line.startswith("[gw"))


@WITH_WORKERS_ON_REQUEST
def test_texts_of_failures_fit_into_three_kilobytes_whatever_the_case_holds(project, mode):
    words = [f"ünfindable 日本 {number} " + "x" * 500 for number in range(10)]
    evaluators = [{"name": f"words {number}", "type": "heuristic", "hits": words} for number in range(10)]
    case = {"id": "i" * 300, "expected_outcome": "x", "input": "x" * 10_000, "evaluators": evaluators}
    project.write("evals/qa.eval.yaml", "evalcases:\n  - " + json.dumps(case))
    project.write("targets.yaml", TARGETS.replace("echo hello world", "yes 日本 | head -c 29995"))
    project.write(
        "conftest.py",
        """
        import json

        def pytest_runtest_logreport(report):
            if report.failed:
                print("size:", len(json.dumps(report.longreprtext)))
        """,
    )
    run = project.run("-s", mode=mode)
    assert run.outcomes == {"failed": 1}
    (size,) = (int(line.rpartition("size: ")[2]) for line in run.lines if "size: " in line)
    assert 1_000 < size <= 3_072  # under xdist pytest adds a line that names the worker


def test_the_location_of_a_case_is_its_line_in_the_eval_file(project):
    project.write(
        "conftest.py",
        """
        def pytest_runtest_logreport(report):
            print("location:", *report.location)
            if report.failed:
                print("crash:", report.longrepr.reprcrash.path, report.longrepr.reprcrash.lineno)
        """,
    )
    run = project.run("-s", "-q")
    places = [line.lstrip(".FE") for line in run.lines if "location: " in line or "crash: " in line]
    assert list(dict.fromkeys(places)) == [
        "location: evals/qa.eval.yaml 1 good",
        "location: evals/qa.eval.yaml 5 bad",
        "crash: evals/qa.eval.yaml 6",
        "location: evals/qa.eval.yaml 9 broken",
        "crash: evals/qa.eval.yaml 10",
    ]


@WITH_WORKERS_ON_REQUEST
def test_durations_are_those_of_the_cases(project, mode):
    project.write("evals/qa.eval.yaml", CASE.replace("id: good", "id: good\n    execution: {target: slow}"))
    run = project.run("--durations=0", "-vv", mode=mode)
    shown = {
        tuple(line.split()[1:]): float(line.split("s")[0])
        for line in run.lines
        if re.match(r"\d+\.\d\ds (setup|call|teardown) ", line)
    }
    assert shown["call", "evals/qa.eval.yaml::good"] == pytest.approx(run.by_id["good"]["duration_ms"] / 1000, abs=0.3)
    assert shown["call", "evals/qa.eval.yaml::good"] >= 0.9
    assert shown["setup", "evals/qa.eval.yaml::good"] < 0.8
    assert shown["call", "evals/qa.eval.yaml::bad"] < 0.8


def test_durations_of_cases_that_ran_at_the_same_time_are_their_own(project, suite):
    project.write("evals/qa.eval.yaml", suite(**{f"case-{number}": "hello" for number in range(4)}))
    project.write("conftest.py", "def pytest_runtest_logreport(report): print('took:', report.when, report.duration)")
    run = project.run("-s", "--agentv-target=slow", "--agentv-workers=4")
    took = [float(line.split()[-1]) for line in run.lines if "took: call" in line]
    assert len(took) == 4
    assert all(0.9 <= seconds < 3 for seconds in took)


def test_warnings_that_a_project_makes_errors_are_told_without_a_traceback(project):
    project.write("pytest.ini", "[pytest]\nfilterwarnings = error\n")
    project.write("evals/qa.eval.yaml", CASE.replace("    input: Say it", "    priority: high\n    input: Say it", 1))
    case = project.run()
    assert case.outcomes == {"failed": 1, "errors": 2}
    assert block(case, "ERROR at setup of good") == "evals/qa.eval.yaml:4: evalcases[0].priority: unknown key"
    assert "pytest_agentv/" not in case.text


def test_a_run_without_colour_or_terminal_plugin_still_ends_well(project):
    assert project.run("--color=yes").outcomes
    assert project.run("-p", "no:terminal").exit_code == pytest.ExitCode.TESTS_FAILED
    assert project.run("-p", "no:logging", "-p", "no:warnings").outcomes == {"passed": 1, "failed": 1, "errors": 1}


ANSWER = "Grüße, 世界 – " + "long " * 2_000


@pytest.mark.parametrize(("encoding", "is_utf8_mode"), [("ascii", None), varied("ascii", "0"), ("cp1252", None)])
def test_terminals_that_are_narrow_and_not_utf_8_show_it_all_the_same(project, suite, encoding, is_utf8_mode):
    project.write(
        "targets.yaml", json.dumps({"targets": [{"name": "default", "provider": "mock", "response": ANSWER}]})
    )
    project.write("evals/qa.eval.yaml", suite(greets="nothing"))
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "20"}
    if is_utf8_mode is not None:
        environment["PYTHONUTF8"] = is_utf8_mode  # which only a fresh process can apply
    command = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "--agentv-out=out.jsonl", "-vv"]
    finished = warm.run(command, cwd=project.path, env=environment, capture_output=True, check=False)
    text = finished.stdout.decode(encoding)
    assert (finished.returncode, finished.stderr) == (pytest.ExitCode.TESTS_FAILED, b"")
    assert "INTERNALERROR" not in text
    assert "Rerun:  pytest evals/qa.eval.yaml::greets" in text
    assert "\x1b" not in text, "colours are for terminals"
    assert json.loads((project.path / "out.jsonl").read_text("utf-8"))["candidate_answer"] == ANSWER
