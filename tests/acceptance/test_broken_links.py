"""Files beside eval files that are links to nothing, pipes or devices."""

import os

import pytest

from .conftest import WITH_WORKERS_ON_REQUEST

CASES = "evalcases: [{id: one, input: hello, evaluators: [{contains: hello}]}]\n"
MOCK = "targets: [{name: default, provider: mock, response: hello}]\n"


@pytest.fixture
def project(project):
    project.write("targets.yaml", MOCK)
    project.write("good.eval.yaml", CASES)
    return project


@WITH_WORKERS_ON_REQUEST
def test_a_sidecar_that_is_a_link_to_nothing_is_an_error(project, mode):
    (project.path / "d.eval.yaml").symlink_to("nowhere")
    project.write("d.eval.jsonl", '{"id": "two", "input": "hello", "evaluators": [{"contains": "hello"}]}\n')
    run = project.run("--continue-on-collection-errors", *mode)
    assert (run.outcomes["passed"], run.outcomes["errors"]) == (1, 1)
    assert "d.eval.yaml: cannot be read: No such file or directory" in run.text


@pytest.mark.parametrize("name", ["rows.csv", "*.csv"])
def test_a_table_that_is_a_pipe_is_told_and_not_read(project, name):
    os.mkfifo(project.path / "rows.csv")
    project.write("a.eval.yaml", f"evalcases: {{from: '{name}'}}\n")
    run = project.run("a.eval.yaml")
    assert "evalcases.from: expected a file, but rows.csv is a pipe, a socket or a device" in run.text
