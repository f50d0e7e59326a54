"""Eval files that are links to nothing, pipes or devices, which pytest leaves out without a word."""

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


def link(project, name):
    path = project.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("nowhere")


@WITH_WORKERS_ON_REQUEST
def test_eval_files_and_sidecars_that_are_links_to_nothing_are_errors(project, mode):
    for name in ("x.eval.yaml", "below/y.eval.jsonl", "evals/x.yaml", "y.yaml", "z.eval.yaml", "d.eval.yaml"):
        link(project, name)
    project.write("conftest.py", "collect_ignore = ['z.eval.yaml']\n")
    project.write("d.eval.jsonl", '{"id": "two", "input": "hello", "evaluators": [{"contains": "hello"}]}\n')
    run = project.run("--continue-on-collection-errors", *mode)
    assert (run.outcomes["passed"], run.outcomes["errors"]) == (1, 3)
    reason = "cannot be read: No such file or directory"
    for name in ("x.eval.yaml", "below/y.eval.jsonl", "d.eval.yaml"):
        assert f"{name}: {reason}" in run.text
    assert f"evals/x.yaml: {reason}; if it has cases, they are not collected" in run.text
    assert not [line for line in run.lines if line.startswith(("y.yaml", "z.eval.yaml"))]
    ignored = [f"--ignore={name}" for name in ("x.eval.yaml", "below", "d.eval.jsonl")]
    assert project.run(*ignored, "--ignore=d.eval.yaml").outcomes["passed"] == 1


@WITH_WORKERS_ON_REQUEST
def test_an_eval_file_that_is_a_pipe_is_an_error(project, mode):
    for name in ("x.eval.yaml", "evals/y.yaml"):
        (project.path / name).parent.mkdir(exist_ok=True)
        os.mkfifo(project.path / name)
    (project.path / "below").mkdir()
    (project.path / "below/z.eval.jsonl").symlink_to("../x.eval.yaml")
    run = project.run("--continue-on-collection-errors", *mode)
    assert (run.outcomes["passed"], run.outcomes["errors"]) == (1, 2)
    reason = "cannot be read: expected a regular file, not a folder, a pipe or a device"
    assert f"x.eval.yaml: {reason}" in run.text
    assert f"below/z.eval.jsonl: {reason}" in run.text
    assert f"evals/y.yaml: {reason}; if it has cases, they are not collected" in run.text


@pytest.mark.parametrize("name", ["rows.csv", "*.csv"])
def test_a_table_that_is_a_pipe_is_told_and_not_read(project, name):
    os.mkfifo(project.path / "rows.csv")
    project.write("a.eval.yaml", f"evalcases: {{from: '{name}'}}\n")
    run = project.run("a.eval.yaml")
    assert "evalcases.from: expected a file, but rows.csv is a pipe, a socket or a device" in run.text
