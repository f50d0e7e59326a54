"""A target is probed once per run, whatever the number of processes."""

import tempfile
import time
from pathlib import Path

import pytest

from .conftest import WITH_WORKERS_ON_REQUEST


def write(project, code):
    project.write(
        "evals/targets.yaml",
        f"""
        targets:
          - name: default
            provider: cli
            command_template: echo hello
            healthcheck: {{type: command, command_template: "echo x >> checked; sleep 0.2; exit {code}"}}
        """,
    )
    cases = "".join(
        f"  - {{id: c{i}, expected_outcome: x, input: hi, evaluators: [{{name: h, type: heuristic, hits: [hello]}}]}}\n"
        for i in range(8)
    )
    (project.path / "evals" / "a.yaml").write_text(f"evalcases:\n{cases}")


def probes(project):
    return len((project.path / "evals" / "checked").read_text().splitlines())


def shared_folders(run):
    return list(Path(tempfile.gettempdir()).glob(f"agentv-{run.results[0]['run_id']}"))


@pytest.mark.scenario("Optional health check")
@pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["plain", "n2"])
def test_a_healthy_target_is_probed_once(project, mode):
    write(project, 0)
    run = project.run("evals", mode=mode, subprocess=True)
    assert (run.outcomes, probes(project)) == ({"passed": 8}, 1)
    deadline = time.monotonic() + 10
    while shared_folders(run) and time.monotonic() < deadline:  # the watcher removes it once the workers are gone
        time.sleep(0.02)
    assert shared_folders(run) == []


@WITH_WORKERS_ON_REQUEST
def test_a_target_that_is_not_well_ends_the_run_with_the_reason(project, mode):
    write(project, 3)
    run = project.run("evals", mode=mode, subprocess=True)
    assert probes(project) == 1
    assert run.exit_code != 0
    assert {result["status"] for result in run.results} == {"error"}
    assert "CLI healthcheck failed for 'default'" in run.text


OWN_KIND = """
    from pytest_agentv import Provider, ProviderError

    class Mine(Provider):
        kind = "mine"

        def open(self, environment):
            return self

        def check(self):
            raise ProviderError("no licence", "network")

        def invoke(self, request):
            return "never asked"

    def pytest_agentv_providers():
        return [Mine]
    """

ASKS_MODEL = "{name: j, type: llm_judge}"
CALLS_TARGETS = "{name: j, type: code_judge, script: [python, judge.py], target: true}"
FAILING_PROBE = 'provider: cli, command_template: "echo no", healthcheck: {type: command, command_template: PROBE}'
PROBE = '"echo x >> checked; exit 3"'


def paid_for(project, judge, evaluators, wanted="j"):
    """Run three cases, judged by these evaluators, and return the run and how many answers were paid for."""
    project.write("conftest.py", OWN_KIND)
    project.write("gone.py", "")
    project.write(
        "evals/targets.yaml",
        f"""
        targets:
          - {{name: default, provider: cli, command_template: "echo x >> paid; echo hello", judge_target: {wanted}}}
          - {{name: j, {judge.replace("PROBE", PROBE)}}}
          - {{name: other, provider: mock, response: hello}}
        """,
    )
    cases = "".join(f"  - {{id: c{i}, expected_outcome: x, input: hi, assert: [{evaluators}]}}\n" for i in range(3))
    (project.path / "evals" / "a.eval.yaml").write_text(f"evalcases:\n{cases}")
    run = project.run("evals")
    paid = project.path / "evals" / "paid"
    return run, len(paid.read_text().splitlines()) if paid.exists() else 0


@pytest.mark.scenario("Optional health check")
@pytest.mark.parametrize(
    "evaluators",
    [
        ASKS_MODEL,
        f"{{name: c, type: composite, evaluators: [{ASKS_MODEL}], aggregator: {{type: weighted_average}}}}",
        CALLS_TARGETS,
    ],
    ids=["judge", "member", "script"],
)
def test_the_probe_of_a_judge_fails_before_an_answer_is_paid_for_and_ends_the_run(project, evaluators):
    run, paid = paid_for(project, FAILING_PROBE, evaluators)
    assert (paid, probes(project)) == (0, 1)
    assert {result["status"] for result in run.results} == {"error"}
    assert "CLI healthcheck failed for 'j': the command" in run.results[0]["error"]
    assert "Interrupted: agentv: CLI healthcheck failed for 'j'" in run.text


@pytest.mark.parametrize(
    ("judge", "evaluators", "error"),
    [
        ("provider: claude-code, executable: ./nowhere/claude", ASKS_MODEL, "nowhere/claude' is no program"),
        ('provider: python, callable: "missing.py:judge"', ASKS_MODEL, "missing.py"),
        ('provider: python, callable: "gone.py:juge"', ASKS_MODEL, "juge"),
        ("provider: mine", ASKS_MODEL, "no licence"),
        ("provider: mine", CALLS_TARGETS, "no licence"),
    ],
    ids=["executable", "file", "function", "own kind", "script"],
)
def test_a_judge_that_cannot_be_asked_is_found_before_an_answer_is_paid_for(project, judge, evaluators, error):
    run, paid = paid_for(project, judge, evaluators)
    assert paid == 0
    assert error in run.results[0]["error"]
    assert run.results[0]["error_detail"]["stage"] == "setup"


@pytest.mark.parametrize(
    ("evaluators", "wanted"), [("{contains: hello}", "j"), (ASKS_MODEL, "other")], ids=["no model", "another judge"]
)
def test_a_judge_that_no_case_needs_is_not_probed(project, evaluators, wanted):
    run, paid = paid_for(project, FAILING_PROBE, evaluators, wanted)
    assert (paid, (project.path / "evals" / "checked").exists()) == (3, False)
    assert "healthcheck" not in run.text


def test_a_target_that_a_script_names_is_probed_before_its_first_call(project):
    project.write(
        "evals/judge.py",
        """
        from pytest_agentv.sdk import Result, code_judge, create_target_client

        @code_judge
        def judge(case):
            create_target_client().invoke("well?", target="j")
            return Result(score=1.0)
        """,
    )
    run, paid = paid_for(project, FAILING_PROBE, CALLS_TARGETS, "other")
    assert probes(project) == 1
    assert (run.results[0]["status"], "CLI healthcheck failed for 'j'" in run.text) == ("error", True)
    assert paid == len(run.results)
