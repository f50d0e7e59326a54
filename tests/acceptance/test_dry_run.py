"""A dry run: everything but the target and the judge is real."""

import time

import pytest

LOCKED = """
targets:
  - name: default
    provider: cli
    command_template: touch target-ran; echo ${{ A_KEY_NOBODY_HAS }}
    healthcheck: {type: command, command_template: touch probe-ran}
    judge_target: cloud
  - {name: cloud, provider: azure}
  - {name: python, provider: python, callable: gone.py:answer}
"""

BROKEN = """
defaults: {input: q, criteria: o}
evalcases:
  - {id: syntax, assert: [{python: "data["}]}
  - {id: name, assert: [{python: "checks.py:misspelt"}]}
  - {id: module, assert: [{python: "broken.py:check"}]}
  - {id: file, assert: [{python: "gone.py:check"}]}
  - {id: result, assert: [{python: "checks.py:nothing"}]}
  - {id: own result, assert: [{type: wordless}]}
  - {id: script name, assert: [{name: j, type: code_judge, script: [python, name.py]}]}
  - {id: script file, assert: [{name: j, type: code_judge, script: [python, gone.py]}]}
  - {id: shell, assert: [{name: j, type: code_judge, script: no-such-program --x}]}
  - {id: package, assert: [{name: j, type: code_judge, script: [python, -m, no_such]}]}
  - {id: words, assert: [{name: j, type: code_judge, script: "sh -c 'if then'"}]}
  - {id: hidden, assert: [{name: j, type: code_judge, script: no-such; exit 1}]}
  - {id: flag, assert: [{name: j, type: code_judge, script: [python, flag.py, --x]}]}
  - {id: unknown target, target: nobody}
"""
"""What is really broken fails a dry run as well."""


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch):
    for name in ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "AZURE_DEPLOYMENT_NAME", "A_KEY_NOBODY_HAS"):
        monkeypatch.delenv(name, raising=False)


def answer_times(project, *flags):
    """Return how many milliseconds each answer took."""
    return [result["execution_metrics"]["duration_ms"] for result in project.run("--agentv-dry-run", *flags).results]


@pytest.mark.scenario("Dry-run mode")
def test_mocked_answers_take_as_long_as_the_flags_say(project, suite, monkeypatch):
    project.write("targets.yaml", LOCKED)
    project.write("a.eval.yaml", suite(a="x", b="x"))
    assert max(answer_times(project)) < 300
    at_once = "--agentv-workers=2"
    assert min(answer_times(project, "--agentv-dry-run-delay=300", at_once)) >= 299
    range_of_delays = ("--agentv-dry-run-delay-min=100", "--agentv-dry-run-delay-max=400", at_once)
    monkeypatch.setattr("random.uniform", lambda low, high: low)
    assert 99 <= min(answer_times(project, *range_of_delays)) < 390
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    assert min(answer_times(project, *range_of_delays)) >= 399


def test_a_shortest_delay_above_the_longest_is_a_wrong_usage(project, suite):
    """The longest one was ignored."""
    run = project.run("--agentv-dry-run", "--agentv-dry-run-delay-min=300", "--agentv-dry-run-delay-max=10")
    assert run.exit_code == 4
    text = "--agentv-dry-run-delay-min=300 is above --agentv-dry-run-delay-max=10: expected the shorter delay first"
    assert f"ERROR: {text}" in run.lines
    assert "--agentv" not in project.run("--agentv-dry-run", "--agentv-dry-run-delay-min=1").text


def test_a_delay_longer_than_the_time_limit_is_a_timeout_of_the_dry_run(project, suite):
    project.write("targets.yaml", LOCKED)
    project.write("a.eval.yaml", suite(a="x"))
    started = time.monotonic()
    run = project.run(
        "--agentv-dry-run", "--agentv-dry-run-delay=20000", "--agentv-timeout=0.1", "--agentv-max-retries=1"
    )
    assert time.monotonic() - started < 10
    assert run.statuses == {"a": "error"}
    (result,) = run.results
    assert (result["attempts"], result["dry_run"]) == (2, True)
    assert result["error"] == "target 'dry-run' timed out after 0.1s"


WORDLESS = """
    from pytest_agentv import Evaluator

    class Wordless(Evaluator):
        kind = "wordless"

        def evaluate(self, context):
            return "good"

    def pytest_agentv_evaluators():
        return [Wordless]
    """


def test_what_is_really_broken_fails_a_dry_run_as_well(project):
    """`dry-run-of-all-checks` of the corpus has what does not."""
    project.write("targets.yaml", LOCKED)
    project.write("conftest.py", WORDLESS)
    project.write("broken.eval.yaml", BROKEN)
    project.write("checks.py", "def misspelt(data): return dta\ndef nothing(): pass\n")
    project.write("broken.py", "import no_such_module\ndef check(): return True")
    project.write("name.py", "print(scoer)")
    project.write("flag.py", "import argparse; argparse.ArgumentParser().parse_args()")
    run = project.run("--agentv-dry-run", "--agentv-threshold=1")
    assert run.outcomes == {"errors": BROKEN.count("id: ")}
    assert {(result["status"], result["dry_run"]) for result in run.results} == {("error", True)}
