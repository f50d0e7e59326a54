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
