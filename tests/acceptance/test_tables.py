"""Rows of tables as items: names, errors, selection, workers, resuming, hashes, records."""

import json

import pytest

from .conftest import WITH_WORKERS_ON_REQUEST

AGENT = """
import json, pathlib

def answer(prompt):
    with (pathlib.Path(__file__).parent / "calls.txt").open("a") as file:
        file.write(json.dumps(prompt) + "\\n")
    return f"You said: {prompt}"
"""
TARGETS = "targets: [{name: default, provider: python, callable: 'agent.py:answer'}]\n"
SUITE = """
evalcases: {from: data/questions.csv}
case:
  id: "q-{{ number }}"
  tags: ["{{ topic }}"]
  input: "Answer: {{ question }}"
  expected_output: "{{ answer }}"
  evaluators: [{name: words, type: heuristic, hits: ["{{ answer }}"]}]
"""
ROWS = """
number;question;answer;topic
1;"What is
this?";this;tents
2;two;zwei;tents
3;too few
4;four;four;stoves
1;again;again;stoves
"""


@pytest.fixture(autouse=True)
def files(request):
    if "project" in request.fixturenames:
        fill(request.getfixturevalue("project"))
    if "project_in_all_modes" in request.fixturenames:
        fill(request.getfixturevalue("project_in_all_modes"))


def fill(project):
    project.write("evals/agent.py", AGENT)
    project.write("evals/targets.yaml", TARGETS)
    project.write("evals/q.eval.yaml", SUITE)
    project.write("evals/data/questions.csv", ROWS)


def calls(project):
    """Return the prompts since they were last asked for."""
    path = project.path / "evals/calls.txt"
    asked = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    path.unlink(missing_ok=True)
    return sorted(asked)


@WITH_WORKERS_ON_REQUEST
def test_a_resumed_run_asks_only_for_rows_that_changed(project, mode):
    project.write("evals/data/questions.csv", ROWS.replace("3;too few\n", "").replace("1;again;again;stoves\n", ""))
    out = "--agentv-out=own.jsonl"
    assert project.run(out).outcomes == {"passed": 2, "failed": 1}
    assert len(calls(project)) == 3
    new = "number;question;answer;topic\n0;new;new;x\n" + ROWS.partition("topic\n")[2]
    new = new.replace("3;too few\n", "").replace("1;again;again;stoves\n", "").replace("four;four", "for;for")
    project.write("evals/data/questions.csv", new)
    assert project.run(out, "--agentv-resume=own.jsonl", *mode).outcomes == {"passed": 3, "failed": 1}
    assert calls(project) == ["Answer: for", "Answer: new"]


def test_a_function_that_makes_rows_and_fails_is_an_error_of_the_file_without_secrets(project, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "sk-very-secret-4711")
    project.write("evals/q.eval.yaml", SUITE.replace("data/questions.csv", "cases.py:make"))
    project.write("evals/cases.py", """
        def make():
            print("connecting with sk-very-secret-4711")
            raise ValueError("no database for sk-very-secret-4711")
        """)  # fmt: skip
    run = project.run("--junitxml=junit.xml")
    assert "evals/q.eval.yaml:1: evalcases.from: cases.py:make raised ValueError: no database for ***" in run.text
    assert "evals/cases.py:3" in run.text
    assert "connecting with ***" in run.text
    assert "very-secret" not in run.text + (project.path / "junit.xml").read_text()
    assert not run.internals


def test_a_secret_in_a_table_is_masked_in_what_is_written(project, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "sk-very-secret-4711")
    project.write("evals/data/questions.csv", "number,question,answer,topic\n1,Use sk-very-secret-4711,nothing,x\n"
                  "2,{{ x }},sk-very-secret-4711 {{ y }},x\n")  # fmt: skip
    project.write("evals/q.eval.yaml", SUITE.replace("Answer:", "{{ topic }}{{ question.nope }}"))
    first = project.run()
    project.write("evals/q.eval.yaml", SUITE)
    second = project.run("--agentv-dump-prompts=prompts", "--junitxml=junit.xml")
    written = [
        path for path in project.path.rglob("*") if path.is_file() and path.suffix in (".jsonl", ".json", ".xml")
    ]
    assert len(written) >= 4
    assert second.outcomes == {"failed": 2}
    for text in (first.text, second.text, *(path.read_text() for path in written)):
        assert "very-secret" not in text


@pytest.mark.kills
def test_a_crashed_worker_leaves_an_error_that_names_the_row(project):
    project.write(
        "evals/agent.py", "import os\ndef answer(prompt):\n    if 'two' in prompt: os._exit(3)\n    return prompt\n"
    )
    run = project.run("-n1", "--max-worker-restart=1")
    crashed = next(result for result in run.results if result["eval_id"] == "q-2")
    assert (crashed["status"], crashed["row"]) == ("error", "evals/data/questions.csv:4")
