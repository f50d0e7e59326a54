"""Annotations of a run on GitHub: once for each failing case, with workers and without; none elsewhere."""

import pytest

from .conftest import IN_ONE_PROCESS

CASES = """
evalcases:
  - {id: good, expected_outcome: x, input: Hi, evaluators: [{name: words, type: heuristic, hits: [hello]}]}
  - {id: bad, expected_outcome: x, input: Hi, evaluators: [{name: words, type: heuristic, hits: [nothing]}]}
  - id: expected
    xfail: a known weakness
    expected_outcome: x
    input: Hi
    evaluators: [{name: words, type: heuristic, hits: [nothing]}]
"""


@pytest.fixture
def project(project_in_all_modes):
    project_in_all_modes.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    project_in_all_modes.write("evals/qa.eval.yaml", CASES)
    return project_in_all_modes


def annotations(run):
    return [line for line in run.lines if line.startswith("::")]


def test_a_failing_case_is_marked_once_at_its_line(project, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert annotations(project.run()) == [
        "::error file=evals/qa.eval.yaml,line=3,title=evals/qa.eval.yaml%3A%3Abad::"
        'words: missing "nothing" (0.00 < 1.00)'
    ]


@IN_ONE_PROCESS
def test_no_other_log_has_annotations(project):
    assert annotations(project.run()) == []
