"""Eval files that are links to nothing, which pytest leaves out without a word."""

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
def test_an_eval_file_that_is_a_link_to_nothing_is_an_error(project, mode):
    link(project, "x.eval.yaml")
    link(project, "below/y.eval.jsonl")
    run = project.run("--continue-on-collection-errors", *mode)
    assert run.outcomes == {"passed": 1, "errors": 2}
    assert "ERROR x.eval.yaml" in run.text
    assert "x.eval.yaml: cannot be read: No such file or directory" in run.text
    assert "below/y.eval.jsonl: cannot be read: No such file or directory" in run.text
    run = project.run("--ignore=x.eval.yaml", "--ignore=below")
    assert run.outcomes == {"passed": 1}


def test_a_link_to_nothing_among_evals_is_told(project):
    link(project, "evals/x.yaml")
    link(project, "y.yaml")
    project.write("conftest.py", "collect_ignore = ['z.eval.yaml']\n")
    link(project, "z.eval.yaml")
    run = project.run()
    assert run.outcomes == {"passed": 1, "warnings": 1}
    assert (
        "evals/x.yaml: cannot be read: No such file or directory; if it has cases, they are not collected" in run.text
    )


def test_the_sidecar_of_a_dataset_that_is_a_link_to_nothing_is_an_error(project):
    project.write("d.eval.jsonl", '{"id": "two", "input": "hello", "evaluators": [{"contains": "hello"}]}\n')
    link(project, "d.eval.yaml")
    run = project.run("--continue-on-collection-errors")
    assert run.outcomes == {"passed": 1, "errors": 1}
    assert "d.eval.yaml: cannot be read: No such file or directory" in run.text
