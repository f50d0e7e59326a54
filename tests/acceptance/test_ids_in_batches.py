"""Cases with the same id, of a target that answers many cases in one call."""

import json

import pytest

COMMAND = """
targets:
  - name: default
    provider: cli
    provider_batching: true
    command_template: 'echo x >> {folder}/calls.txt; cat answers.jsonl > {{OUTPUT_FILE}}'
  - {{name: other, provider: mock, response: hello}}
"""


def write_cases(project, path, *ids, **keys):
    checks = [{"name": "w", "type": "heuristic", "hits": ["hello"]}]
    cases = [{"id": name, "expected_outcome": "x", "input": f"{path}:{name}", "evaluators": checks} for name in ids]
    project.write(path, json.dumps({"evalcases": cases, **keys}))


@pytest.mark.parametrize("flags", [[], ["-n2"]])
def test_cases_that_share_an_id_are_errors_and_are_not_asked(project, flags):
    """One of them was judged by the answer of the other."""
    lines = "".join(json.dumps({"id": name, "text": "hello", "cost_usd": 0.5}) + "\n" for name in "abc")
    for folder in ("one", "two"):
        project.write(f"{folder}/targets.yaml", COMMAND.format(folder=project.path))
        project.write(f"{folder}/answers.jsonl", lines)
    write_cases(project, "one/first.eval.yaml", "a", "b")
    write_cases(project, "one/second.eval.yaml", "a", "c")
    write_cases(project, "one/third.eval.yaml", "b", execution={"target": "other"})
    write_cases(project, "two/first.eval.yaml", "a")
    run = project.run(*flags)
    assert {(each["eval_file"], each["eval_id"], each["status"]) for each in run.results} == {
        ("one/first.eval.yaml", "a", "error"),
        ("one/first.eval.yaml", "b", "pass"),
        ("one/second.eval.yaml", "a", "error"),
        ("one/second.eval.yaml", "c", "pass"),
        ("one/third.eval.yaml", "b", "pass"),
        ("two/first.eval.yaml", "a", "pass"),
    }
    errors = {each["eval_file"]: each["error"] for each in run.results if each["status"] == "error"}
    assert errors["one/second.eval.yaml"] == (
        "one/first.eval.yaml:1 has the id 'a' as well. Target 'default' has `provider_batching` and answers by id, so "
        "in one folder each of its cases needs an id of its own"
    )
    assert sum(each["execution_metrics"].get("cost_usd", 0) for each in run.results if each["status"] == "pass") == 1.5
    calls = (project.path / "calls.txt").read_text().split()
    assert 2 <= len(calls) <= (3 if flags else 2), "each process makes calls of its own"


def test_a_case_that_is_skipped_shares_no_answer(project):
    project.write("targets.yaml", COMMAND.format(folder=project.path))
    project.write("answers.jsonl", '{"id": "a", "text": "hello"}')
    write_cases(project, "first.eval.yaml", "a")
    old = {"id": "a", "input": "old", "skip": True, "assert": [{"contains": "x"}]}
    project.write("second.eval.yaml", json.dumps({"evalcases": [old]}))
    assert project.run().outcomes == {"passed": 1, "skipped": 1}


def test_a_rerun_of_such_a_case_is_an_error_too(project):
    project.write("targets.yaml", COMMAND.format(folder=project.path))
    project.write("answers.jsonl", '{"id": "a", "text": "hello"}')
    write_cases(project, "first.eval.yaml", "a")
    write_cases(project, "second.eval.yaml", "a")
    assert project.run("--reruns=1").outcomes == {"errors": 2, "rerun": 2}
    assert not (project.path / "calls.txt").exists()


OWN_KIND = """
import os

from pytest_agentv import Provider


class Many(Provider):
    kind = "many"

    def open(self, environment):
        return self

    def invoke(self, request):
        raise AssertionError("asked alone")

    def invoke_batch(self, requests):
        asked = {request.eval_id: request.prompt.question for request in requests}
        with open("batches.txt", "a") as file:
            file.write(f"{len(asked)}/{len(requests)} ")
        word = "no" if os.environ.get("BROKEN") else "hello"
        return [f"{word} {asked[request.eval_id]}" for request in requests]


def pytest_agentv_providers():
    return [Many]
"""


@pytest.fixture
def own_kind(project):
    project.write("conftest.py", OWN_KIND)
    project.write("targets.yaml", "targets: [{name: default, provider: many, provider_batching: true}]\n")
    write_cases(project, "first.eval.yaml", "a", "b")
    write_cases(project, "second.eval.yaml", "a", "c")
    return project


def batches(project):
    path = project.path / "batches.txt"
    found = path.read_text().split()
    path.unlink()
    return found


def test_of_two_cases_with_one_id_the_second_goes_into_the_next_batch(own_kind):
    run = own_kind.run()
    assert sorted(each["candidate_answer"] for each in run.results) == [
        *("hello first.eval.yaml:a", "hello first.eval.yaml:b"),
        *("hello second.eval.yaml:a", "hello second.eval.yaml:c"),
    ]
    assert batches(own_kind) == ["3/3", "1/1"]


def test_so_it_does_when_they_are_asked_again(own_kind, monkeypatch):
    own_kind.run("--agentv-repeat=5", "--agentv-update-baseline")
    batches(own_kind)
    monkeypatch.setenv("BROKEN", "1")
    run = own_kind.run("--agentv-repeat=5", "--agentv-baseline")
    assert len([line for line in run.lines if line.startswith("BROKEN")]) == 4
    assert sorted(batches(own_kind)) == [*["1/1"] * 15, *["3/3"] * 15]
