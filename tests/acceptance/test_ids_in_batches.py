"""Cases with the same id, of a target that answers many cases in one call."""

import json

COMMAND = """
targets:
  - name: default
    provider: cli
    provider_batching: true
    command_template: 'echo x >> calls.txt; cat answers.jsonl > {OUTPUT_FILE}'
"""


def write_cases(project, path, *ids):
    checks = [{"name": "w", "type": "heuristic", "hits": ["hello"]}]
    cases = [{"id": name, "expected_outcome": "x", "input": f"{path}:{name}", "evaluators": checks} for name in ids]
    project.write(path, json.dumps({"evalcases": cases}))


def test_a_case_that_is_skipped_shares_no_answer_and_a_rerun_of_such_a_case_is_an_error_too(project):
    project.write("targets.yaml", COMMAND)
    project.write("answers.jsonl", '{"id": "a", "text": "hello"}')
    write_cases(project, "first.eval.yaml", "a")
    old = {"id": "a", "input": "old", "skip": True, "assert": [{"contains": "x"}]}
    project.write("second.eval.yaml", json.dumps({"evalcases": [old]}))
    assert project.run().outcomes == {"passed": 1, "skipped": 1}
    (project.path / "calls.txt").unlink()
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


def batches(project):
    path = project.path / "batches.txt"
    found = path.read_text().split()
    path.unlink()
    return found


def test_of_two_cases_with_one_id_the_second_goes_into_the_next_batch(project, monkeypatch):
    project.write("conftest.py", OWN_KIND)
    project.write("targets.yaml", "targets: [{name: default, provider: many, provider_batching: true}]\n")
    write_cases(project, "first.eval.yaml", "a", "b")
    write_cases(project, "second.eval.yaml", "a", "c")
    run = project.run("--agentv-repeat=5", "--agentv-update-baseline")
    assert sorted(each["candidate_answer"] for each in run.results) == [
        *("hello first.eval.yaml:a", "hello first.eval.yaml:b"),
        *("hello second.eval.yaml:a", "hello second.eval.yaml:c"),
    ]
    assert sorted(batches(project)) == [*["1/1"] * 5, *["3/3"] * 5]
    monkeypatch.setenv("BROKEN", "1")
    run = project.run("--agentv-repeat=5", "--agentv-baseline")
    assert len([line for line in run.lines if line.startswith("BROKEN")]) == 4
    assert sorted(batches(project)) == [*["1/1"] * 5, *["3/3"] * 5], "fresh answers are asked one by one"
