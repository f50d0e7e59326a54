"""Cases as pytest items: the tree, node ids, and what a case's id becomes in one."""

import json
import shlex

import pytest

MOCK_TARGETS = "targets: [{name: default, provider: mock, response: hello world}]\n"

UNUSUAL_IDS = {
    "two words": "two words",
    "ünï 日本": "ünï 日本",
    "a::b": "a:b",
    "a:::::b": "a:b-2",
    "m[gpt]": "m(gpt)",
    "a/b": "a/b",
    "-v": "-v",
    "@file": "@file",
    "v1.2": "v1.2",
    "#1": "#1",
    'it\'s "quoted" $(x)': 'it\'s "quoted" $(x)',
    "back\\slash": "back\\slash",
    "line\nbreak": "line break",
    "line\r\nbreak": "line break-2",
    "next\x85line": "next line",
    "line\u2028separator": "line separator",
    "null\x00byte": "null byte",
    "tab\tulator": "tab ulator",
    " padded ": "padded-2",
    "padded": "padded",
    "and": "and",
}
"""Ids, and the names that pytest, xdist and IDEs can select their items by."""


@pytest.fixture
def project(project):
    project.write("targets.yaml", MOCK_TARGETS)
    return project


def case(eval_id, keyword="hello"):
    """Return a case as a value of JSON, which is YAML as well."""
    return {
        "id": eval_id,
        "expected_outcome": "says it",
        "input": "Say it",
        "evaluators": [{"name": "words", "type": "heuristic", "hits": [keyword]}],
    }


def eval_file(*cases):
    return "evalcases:\n" + "".join(f"  - {json.dumps(value)}\n" for value in cases)


def collected_ids(run):
    return run.lines[: run.lines.index("")]


def test_the_tree_holds_the_file_and_below_it_its_cases_in_their_order(project, suite):
    project.write("evals/qa.eval.yaml", suite(second="hello", first="hello"))
    project.write("evals/other.eval.jsonl", json.dumps(case("third")) + "\n")
    run = project.run("--collect-only")
    tree = [line for line in run.lines if "<" in line]
    assert [line.strip() for line in tree] == [
        f"<Dir {project.path.name}>",
        "<Dir evals>",
        "<EvalFile other.eval.jsonl>",
        "<EvalItem third>",
        "<EvalFile qa.eval.yaml>",
        "<EvalItem second>",
        "<EvalItem first>",
    ]
    assert [len(line) - len(line.lstrip()) for line in tree] == [0, 2, 4, 6, 4, 6, 6]
    assert run.exit_code == 0


def test_unusual_ids_become_names_that_can_be_selected(project):
    project.write("qa.eval.yaml", eval_file(*map(case, UNUSUAL_IDS)))
    assert collected_ids(project.run("--collect-only", "-q")) == [
        f"qa.eval.yaml::{name}" for name in UNUSUAL_IDS.values()
    ]
    everything = project.run()
    assert [result["eval_id"] for result in everything.results] == list(UNUSUAL_IDS)
    assert [result["node_id"] for result in everything.results] == [
        f"qa.eval.yaml::{name}" for name in UNUSUAL_IDS.values()
    ]
    for chosen in (list(UNUSUAL_IDS)[::2], list(UNUSUAL_IDS)[1::2]):
        run = project.run(*(f"qa.eval.yaml::{UNUSUAL_IDS[eval_id]}" for eval_id in chosen))
        assert (run.exit_code, run.statuses) == (0, dict.fromkeys(chosen, "pass"))


def test_the_command_of_a_failure_text_runs_just_that_case(project):
    project.write("sub dir/qa.eval.yaml", eval_file(case('it\'s "quoted" $(x)', "nothing"), case("other")))
    failed = project.run("--agentv-threshold=0.5")
    (command,) = (line.removeprefix("Rerun:").strip() for line in failed.lines if line.startswith("Rerun:"))
    program, *arguments = shlex.split(command)
    assert program == "pytest"
    again = project.run(*arguments)
    assert again.statuses == {'it\'s "quoted" $(x)': "fail"}
    assert again.results[0]["threshold"] == 0.5
