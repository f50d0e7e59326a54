"""A target is probed once per run, whatever the number of processes."""

import tempfile
import time
from pathlib import Path

import pytest
from thorough import varied

from .conftest import SDK

PROBE = '{type: command, command_template: "echo x >> checked; sleep 0.2; exit CODE"}'
FAILING = f"provider: cli, command_template: 'echo no', healthcheck: {PROBE.replace('CODE', '3')}"


def probes(project):
    return len((project.path / "evals" / "checked").read_text().splitlines())


def shared_folders(run):
    return list(Path(tempfile.gettempdir()).glob(f"agentv-{run.results[0]['run_id']}"))


@pytest.mark.scenario("Optional health check")
@pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["plain", "n2"])
def test_a_healthy_target_is_probed_once(project, mode):
    target = f"name: default, provider: cli, command_template: echo hello, healthcheck: {PROBE.replace('CODE', '0')}"
    project.write("evals/targets.yaml", f"targets: [{{{target}}}]\n")
    cases = "".join(f"  - {{id: c{i}, input: hi, assert: [contains: hello]}}\n" for i in range(8))
    project.write("evals/a.yaml", f"evalcases:\n{cases}")
    run = project.run("evals", mode=mode, subprocess=True)
    assert (run.outcomes, probes(project)) == ({"passed": 8}, 1)
    deadline = time.monotonic() + 10
    while shared_folders(run) and time.monotonic() < deadline:  # the watcher removes it once the workers are gone
        time.sleep(0.02)
    assert shared_folders(run) == []


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
TARGETS = """
targets:
  - {{name: default, provider: cli, command_template: "echo x >> paid; echo hello", judge_target: {wanted}}}
  - {{name: j, {judge}}}
  - {{name: other, provider: mock, response: hello}}
"""


def paid_for(project, evaluators, wanted="j"):
    """Run three cases, judged by these evaluators, and return the run and how many answers were paid for."""
    project.write("evals/targets.yaml", TARGETS.format(wanted=wanted, judge=FAILING))
    cases = "".join(f"  - {{id: c{i}, expected_outcome: x, input: hi, assert: [{evaluators}]}}\n" for i in range(3))
    project.write("evals/a.eval.yaml", f"evalcases:\n{cases}")
    run = project.run("evals")
    paid = project.path / "evals" / "paid"
    return run, len(paid.read_text().splitlines()) if paid.exists() else 0


@pytest.mark.scenario("Optional health check")
@pytest.mark.parametrize(
    "evaluators",
    [
        varied(ASKS_MODEL, id="judge"),
        pytest.param(f"composite: {{evaluators: [{ASKS_MODEL}], aggregator: {{type: weighted_average}}}}", id="member"),
        pytest.param(CALLS_TARGETS, id="script"),
    ],
)
def test_the_probe_of_a_judge_fails_before_an_answer_is_paid_for_and_ends_the_run(project, evaluators):
    run, paid = paid_for(project, evaluators)
    assert (paid, probes(project)) == (0, 1)
    assert {result["status"] for result in run.results} == {"error"}
    assert "CLI healthcheck failed for 'j': the command" in run.results[0]["error"]
    assert "Interrupted: agentv: CLI healthcheck failed for 'j'" in run.text


JUDGES = {
    "executable": ("provider: claude-code, executable: ./nowhere/claude", ASKS_MODEL, "nowhere/claude' is no program"),
    "file": ('provider: python, callable: "missing.py:judge"', ASKS_MODEL, "missing.py"),
    "function": ('provider: python, callable: "gone.py:juge"', ASKS_MODEL, "juge"),
    "kind": ("provider: mine", CALLS_TARGETS, "no licence"),
}


def test_a_judge_that_cannot_be_asked_is_found_before_an_answer_is_paid_for(project):
    project.write("conftest.py", OWN_KIND)
    project.write("evals/gone.py", "")
    asked = 'provider: cli, command_template: "echo x >> paid; echo hello"'
    targets = "".join(
        f"  - {{name: {name}, {asked}, judge_target: j-{name}}}\n  - {{name: j-{name}, {judge}}}\n"
        for name, (judge, _, _) in JUDGES.items()
    )
    project.write("evals/targets.yaml", f"targets:\n{targets}")
    cases = "".join(
        f"  - {{id: {name}, expected_outcome: x, input: hi, target: {name}, assert: [{evaluators}]}}\n"
        for name, (_, evaluators, _) in JUDGES.items()
    )
    project.write("evals/a.eval.yaml", f"evalcases:\n{cases}")
    run = project.run("evals")
    assert not (project.path / "evals/paid").exists()
    for name, (_, _, error) in JUDGES.items():
        assert error in run.by_id[name]["error"]
        assert run.by_id[name]["error_detail"]["stage"] == "setup"


@pytest.mark.parametrize(
    ("evaluators", "wanted"), [("{contains: hello}", "j"), (ASKS_MODEL, "other")], ids=["no model", "another judge"]
)
def test_a_judge_that_no_case_needs_is_not_probed(project, evaluators, wanted):
    run, paid = paid_for(project, evaluators, wanted)
    assert (paid, (project.path / "evals" / "checked").exists()) == (3, False)
    assert "healthcheck" not in run.text


def test_a_target_that_a_script_names_is_probed_before_its_first_call(project):
    project.write(
        "evals/judge.py",
        f"{SDK}@code_judge\ndef judge(case):\n    create_target_client().invoke('well?', target='j')\n"
        "    return Result(score=1.0)\n",
    )
    run, paid = paid_for(project, CALLS_TARGETS, "other")
    assert probes(project) == 1
    assert (run.results[0]["status"], "CLI healthcheck failed for 'j'" in run.text) == ("error", True)
    assert paid == len(run.results)
