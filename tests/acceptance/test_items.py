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


def test_collect_only_lists_node_ids_and_runs_nothing(project, suite):
    project.write("evals/qa.eval.yaml", suite(a="hello", b="nothing"))
    run = project.run("--collect-only", "-q")
    assert collected_ids(run) == ["evals/qa.eval.yaml::a", "evals/qa.eval.yaml::b"]
    assert "2 tests collected" in run.text
    assert run.results == []
    assert "EVALUATION SUMMARY" not in run.text


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


def test_unusual_ids_fail_again_with_last_failed(project):
    project.remembers = True
    project.write("qa.eval.yaml", eval_file(*(case(eval_id, "nothing") for eval_id in UNUSUAL_IDS), case("good")))
    assert project.run().outcomes == {"failed": len(UNUSUAL_IDS), "passed": 1}
    again = project.run("--lf")
    assert list(again.statuses) == list(UNUSUAL_IDS)


def test_unusual_ids_run_once_on_workers(project):
    project.write("qa.eval.yaml", eval_file(*map(case, UNUSUAL_IDS)))
    run = project.run("-n", "2", "--dist", "loadfile")
    assert run.outcomes == {"passed": len(UNUSUAL_IDS)}
    assert set(run.statuses) == set(UNUSUAL_IDS)


def test_the_command_of_a_failure_text_runs_just_that_case(project):
    project.write("sub dir/qa.eval.yaml", eval_file(case('it\'s "quoted" $(x)', "nothing"), case("other")))
    failed = project.run("--agentv-threshold=0.5")
    (command,) = (line.removeprefix("Rerun:").strip() for line in failed.lines if line.startswith("Rerun:"))
    program, *arguments = shlex.split(command)
    assert program == "pytest"
    again = project.run(*arguments)
    assert again.statuses == {'it\'s "quoted" $(x)': "fail"}
    assert again.results[0]["threshold"] == 0.5


def test_equal_ids_run_both_and_the_second_is_told_apart_by_a_number(project):
    project.write("qa.eval.yaml", eval_file(case("same"), case("same", "nothing"), case("same")))
    run = project.run("-v")
    assert [(result["eval_id"], result["node_id"], result["status"]) for result in run.results] == [
        ("same", "qa.eval.yaml::same", "pass"),
        ("same", "qa.eval.yaml::same-2", "fail"),
        ("same", "qa.eval.yaml::same-3", "pass"),
    ]
    assert (
        f"{project.path}/qa.eval.yaml:3: AgentvWarning: qa.eval.yaml:3: evalcases[1]: "
        + ("the id 'same' is used twice, first in line 2")
        in run.text
    )
    assert [result["node_id"] for result in project.run("qa.eval.yaml::same-2").results] == ["qa.eval.yaml::same-2"]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (42, 'the number 42 (put it into quotes: "42")'),
        (True, "true"),
        (None, "null"),
        ("", "the text ''"),
        ("\u2028", "the text '\\u2028'"),
        (["a"], "a list"),
    ],
)
def test_an_id_that_is_no_text_is_the_error_of_its_own_item(project, written, shown):
    project.write("qa.eval.yaml", eval_file(case("good"), case(written)))
    run = project.run()
    assert [(result["node_id"], result["status"]) for result in run.results] == [
        ("qa.eval.yaml::good", "pass"),
        ("qa.eval.yaml::unnamed", "error"),
    ]
    assert run.results[1]["error"] == f"qa.eval.yaml:3: evalcases[1].id: expected a non-empty text, got {shown}"
    assert run.outcomes == {"passed": 1, "errors": 1}


def test_jsonl_cases_are_named_like_those_of_yaml(project):
    project.remembers = True
    lines = [case("a::b"), case("m[gpt]", "nothing"), case("m[gpt]")]
    project.write("data.eval.jsonl", "\n\n".join(map(json.dumps, lines)))
    run = project.run()
    assert [(result["node_id"], result["line"]) for result in run.results] == [
        ("data.eval.jsonl::a:b", 1),
        ("data.eval.jsonl::m(gpt)", 3),
        ("data.eval.jsonl::m(gpt)-2", 5),
    ]
    assert list(project.run("--lf").statuses) == ["m[gpt]"]


def test_a_file_without_cases_runs_nothing_and_says_so(project):
    project.write("qa.eval.yaml", "evalcases: []\n")
    run = project.run()
    assert run.exit_code == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "AgentvWarning: qa.eval.yaml:1: evalcases: no eval cases in this file" in run.text
