"""Faults of eval files: each is told once, with path and line, and no other case pays for it."""

import json
import os

import pytest

from pytest_agentv.runtime import files

GOOD = """
  - id: good
    expected_outcome: says hello
    input_messages: [{role: user, content: Say hello}]
    evaluators: [{name: words, type: heuristic, hits: [hello]}]
"""

ITEM_BROKEN = [
    (
        "- 5",
        "evalcases[0]: expected an eval case: a mapping with id, expected_outcome and input_messages, got the number 5",
    ),
    (
        "- {id: 7, expected_outcome: o, input: q}",
        'evalcases[0].id: expected a non-empty text, got the number 7 (put it into quotes: "7")',
    ),
    ("- {id: '', expected_outcome: o, input: q}", "evalcases[0].id: expected a non-empty text, got the text ''"),
    ("- {expected_outcome: o, input: q}", "evalcases[0].id: is missing: expected a non-empty text"),
    (
        "- {id: bad, expected_outcome: [o], input: q}",
        "evalcases[0].expected_outcome: expected a non-empty text, got a list",
    ),
    (
        "- {id: bad, expected_outcome: '', input: q}",
        "evalcases[0].expected_outcome: expected a non-empty text, got the text ''",
    ),
    ("- {id: bad, expected_outcome: o}", "evalcases[0].input_messages: is missing: expected a list of messages"),
    (
        "- {id: bad, expected_outcome: o, input_messages: 5}",
        'evalcases[0].input_messages: expected a list of messages, got the number 5 (put it into quotes: "5")',
    ),
    (
        "- {id: bad, expected_outcome: o, input_messages: [hi]}",
        "evalcases[0].input_messages[0]: expected a message: a mapping with role and content, got the text 'hi'",
    ),
    (
        "- {id: bad, expected_outcome: o, input_messages: [{role: usr, content: q}]}",
        "evalcases[0].input_messages[0].role: expected one of system, user, assistant, tool, got the text 'usr' (did "
        "you mean 'user'?)",
    ),
    (
        "- {id: bad, expected_outcome: o, input_messages: [{role: user, content: 5}]}",
        "evalcases[0].input_messages[0].content: expected a text, a list or a mapping, got the number 5",
    ),
    (
        "- {id: bad, expected_outcome: o, input_messages: [{role: user}]}",
        "evalcases[0].input_messages[0]: the message has no content",
    ),
    (
        "- {id: bad, expected_outcome: o, input_messages: [{role: user, content: [5]}]}",
        "evalcases[0].input_messages[0].content[0]: expected a text or a mapping with type and value, got the number 5",
    ),
    (
        "- {id: bad, expected_outcome: o, input_messages: [{role: user, content: [{type: file, path: a.txt}]}]}",
        "evalcases[0].input_messages[0].content[0]: the file item has no value (rename 'path' to 'value')",
    ),
    (
        "- {id: bad, expected_outcome: o, input_messages: [{role: user, content: [{type: file, value: lost.txt}]}]}",
        "evalcases[0].input_messages[0].content[0].value: file 'lost.txt' was not found; searched: evals/lost.txt, "
        "lost.txt",
    ),
    (
        "- {id: bad, expected_outcome: o, input: q, evaluators: 5}",
        "evalcases[0].evaluators: expected a list of evaluators, got the number 5",
    ),
    (
        "- {id: bad, expected_outcome: o, input: q, evaluators: {name: x}}",
        "evalcases[0].evaluators: expected a list of evaluators, got a mapping (put `- ` before its first key)",
    ),
    (
        "- {id: bad, expected_outcome: o, input: q, evaluators: [5]}",
        "evalcases[0].evaluators[0]: expected an evaluator: a mapping such as {contains: 30 days}, or a text that a "
        "judge checks, got the number 5",
    ),
    (
        "- {id: bad, expected_outcome: o, input: q, evaluators: [{type: heuristic}]}",
        "evalcases[0].evaluators[0]: heuristic needs keywords, or every answer would pass: hits, misses or both",
    ),
    (
        "- {id: bad, expected_outcome: o, input: q, evaluators: [{name: w, type: cots}]}",
        "evalcases[0].evaluators[0].type: expected a kind of evaluator, got the text 'cots' (did you mean 'cost'?)",
    ),
    (
        "- {id: bad, expected_outcome: o, input: q, evaluators: [{name: w, type: heuristic, weight: heavy}]}",
        "evalcases[0].evaluators[0].weight: expected a number, got the text 'heavy'",
    ),
    (
        "- {id: bad, expected_outcome: o, input: q, evaluators: [{name: w, type: heuristic, weight: -1}]}",
        "evalcases[0].evaluators[0].weight: expected a number of 0 or more, got the number -1",
    ),
    (
        "- {id: bad, expected_outcome: o, input: q, threshold: high}",
        "evalcases[0].threshold: expected a number from 0 to 1, got the text 'high'",
    ),
    (
        "- {id: bad, expected_outcome: o, input: q, threshold: 80}",
        "evalcases[0].threshold: expected a number from 0 to 1, got the number 80",
    ),
    (
        "- {id: bad, expected_outcome: o, input: q, execution: 7}",
        "evalcases[0].execution: expected a mapping, got the number 7",
    ),
    (
        "- {id: bad, expected_outcome: o, input: q, execution: {target: [a]}}",
        "evalcases[0].execution.target: expected a text, got a list",
    ),
]
"""Cases in line 2 of a file, and what is wrong with them."""

FILE_BROKEN = [
    (
        "- 1\n",
        "a.eval.yaml:1: has no list of cases: evalcases is missing: expected a mapping with this key, got a list "
        "(write `evalcases:` above the list)",
    ),
    (
        "",
        "a.eval.yaml:1: has no list of cases: evalcases is missing: expected a mapping with this key, got null "
        "(the file is empty)",
    ),
    (
        "targets:\n  - {name: default, provider: mock}\n",
        "a.eval.yaml:1: has no list of cases: evalcases is missing (with the key targets, this is a targets file: "
        "--agentv-targets names one)",
    ),
    (
        "evalcases:\n  a: {input: hi}\n",
        "a.eval.yaml:1: evalcases: expected a list of eval cases, got a mapping (write each as an entry of a list: "
        "`- id: ` and its name)",
    ),
    (
        "evalcases:\n  id: a\n  input: hi\n",
        "a.eval.yaml:1: evalcases: expected a list of eval cases, got a mapping (put `- ` before its first key)",
    ),
    ("evalcases: 5\n", "a.eval.yaml:1: evalcases: expected a list of eval cases, got the number 5"),
    (
        "evlcases:\n  - id: a\n",
        "a.eval.yaml:1: has no list of cases: evalcases is missing (instead of 'evlcases', did you mean 'evalcases'?)",
    ),
    (
        "evalcases:\n  - id: a\n   note: b\n",
        "a.eval.yaml:3: invalid YAML: while parsing a block collection that begins on line 2, "
        "did not find expected '-' indicator (is this line indented as its neighbours are?)",
    ),
    (
        "evalcases:\n\t- id: a\n",
        "a.eval.yaml:2: invalid YAML: while scanning for the next token, found character that cannot start any token "
        "(a tab cannot indent YAML: use spaces)",
    ),
    ("evalcases:\n  - id: a\n    note: b\n    id: c\n", "a.eval.yaml:4: duplicate key 'id', first on line 2"),
    ("evalcases: []\nevalcases: []\n", "a.eval.yaml:2: duplicate key 'evalcases', first on line 1"),
    (
        "evalcases: []\n---\nevalcases: []\n",
        "a.eval.yaml:2: a second document starts here; expected one document in the file",
    ),
    ("evalcases: *all\n", "a.eval.yaml:1: the alias *all has no anchor &all before it"),
    (
        "execution: [1]\nthreshold: 7\nevalcases: []\n",
        "a.eval.yaml:1: execution: expected a mapping, got a list\na.eval.yaml:2: threshold: expected a number from 0 "
        "to 1, got the number 7",
    ),
]
"""Files, and what is wrong with them."""


@pytest.fixture
def project(project):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello world}]\n")
    return project


def section(run, title):
    """Return the lines below a heading of pytest's `___ title ___`, up to the next heading."""
    start = next(number for number, line in enumerate(run.lines) if line.strip("_ ") == title and "_ " in line)
    body = run.lines[start + 1 :]
    end = next(number for number, line in enumerate(body) if line.startswith(("___", "===")))
    return body[:end]


def test_a_case_of_the_wrong_shape_is_an_item_that_errors_and_its_sibling_runs(project):
    paths = [f"evals/{number}.eval.yaml" for number in range(len(ITEM_BROKEN))]
    for path, (case, _) in zip(paths, ITEM_BROKEN, strict=True):
        project.write(path, f"evalcases:\n  {case}\n{GOOD.lstrip()}".replace("\n- id: good", "\n  - id: good"))
    run = project.run(*paths)
    assert (run.exit_code, run.internals) == (1, [])
    assert run.outcomes == {"passed": len(ITEM_BROKEN), "errors": len(ITEM_BROKEN)}
    for path, (_, message) in zip(paths, ITEM_BROKEN, strict=True):
        bad, good = (record for record in run.results if record["eval_file"] == path)
        assert (good["eval_id"], good["status"]) == ("good", "pass")
        assert bad["status"] == "error"
        assert bad["error"] == f"{path}:2: {message}"
        assert bad["error_detail"] == {"stage": "setup", "kind": "config"}
        assert (bad["line"], bad["attempts"]) == (2, 0)
        assert run.lines.count(f"{path}:2: {message}") == 1


def test_a_file_that_cannot_be_read_is_one_collection_error_with_its_line(project):
    for number, (text, _) in enumerate(FILE_BROKEN):
        project.write(f"{number}/a.eval.yaml", text)
    project.write("b.eval.yaml", "evalcases:" + GOOD)
    run = project.run("--continue-on-collection-errors")
    assert (run.exit_code, run.internals) == (1, [])
    assert run.outcomes == {"passed": 1, "errors": len(FILE_BROKEN)}
    for number, (_, message) in enumerate(FILE_BROKEN):
        told = message.replace("a.eval.yaml", f"{number}/a.eval.yaml").split("\n")
        assert section(run, f"ERROR collecting {number}/a.eval.yaml") == told
    assert run.statuses == {"good": "pass"}


def test_a_broken_file_keeps_pytest_from_starting_the_others_as_a_broken_module_does(project):
    project.write("a.eval.yaml", "evalcases: 5\n")
    project.write("b.eval.yaml", "evalcases:" + GOOD)
    run = project.run()
    assert (run.exit_code, run.outcomes, run.results, run.internals) == (2, {"errors": 1}, [], [])


def test_a_file_of_another_encoding_is_a_collection_error(project):
    (project.path / "a.eval.yaml").write_bytes(b"evalcases:\n  - id: caf\xe9\n")
    run = project.run()
    assert section(run, "ERROR collecting a.eval.yaml") == ["a.eval.yaml:2: is not UTF-8: byte 0xe9"]
    assert run.internals == []


@pytest.mark.scenario("Path expansion and validation")
def test_a_path_that_is_not_there_is_a_usage_error(project):
    run = project.run("nowhere.eval.yaml")
    assert (run.exit_code, run.results, run.internals) == (4, [], [])
    assert "ERROR: file or directory not found: nowhere.eval.yaml" in run.lines


def test_all_faults_of_a_case_are_told_at_once(project):
    project.write(
        "a.eval.yaml",
        """
        evalcases:
          - id: bad
            input_messages:
              - role: usr
                content: Hi
            threshold: 2
            evaluators:
              - {name: words, type: heuristic, hits: 5}
        """,
    )
    run = project.run()
    assert section(run, "ERROR at setup of bad") == [
        "The case could not be set up (config)",
        "",
        "a.eval.yaml:4: evalcases[0].input_messages[0].role: expected one of system, user, assistant, tool, got the "
        "text 'usr' (did you mean 'user'?)",
        "a.eval.yaml:6: evalcases[0].threshold: expected a number from 0 to 1, got the number 2",
        "a.eval.yaml:8: evalcases[0].evaluators[0].hits: expected a list, got the number 5",
        "",
        "Target: default",
        "Case:   a.eval.yaml:2",
        "Rerun:  pytest a.eval.yaml::bad",
    ]


SLIPS = {
    "  - {id: a, inptu: q}": "line 2: inptu: did you mean 'input'? (unknown key)",
    "  - {id: a, input: q, assert: [contians: x]}": "line 2: contians: did you mean 'contains'? (is n...",
    "  - {id: a, input: q, rubrics: [x], target: defualt}": "no target 'defualt'; did you mean 'default'? ava...",
    "  - id: a\n   input: q": "line 3: is this line indented as its neighbours are...",
    "  - id: a\n\tinput: q": "line 3: a tab cannot indent YAML: use spaces (inval...",
    "  - {id: a, input: {{ question }} }": "line 2: a text with {{ }} needs quotes (a key must ...",
}
"""What beginners write below `evalcases`, and the end of the short line in 80 columns."""


def test_the_short_line_begins_with_what_helps_most(project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("CI", raising=False)
    for number, text in enumerate(SLIPS):
        project.write(f"evals/{number}.eval.yaml", f"evalcases:\n{text}\n")
    run = project.run("--continue-on-collection-errors")
    told = dict(line.removeprefix("ERROR ").split(" - ") for line in run.lines if line.startswith("ERROR "))
    short = {name.partition("::")[0]: text for name, text in told.items()}
    assert short == {f"evals/{number}.eval.yaml": told for number, told in enumerate(SLIPS.values())}
    assert run.internals == []


UNKNOWN_KEYS = """
descripton: Keys with a slip
evalcases:
  - id: good
    expected_outcome: says hello
    input_messages: [{role: user, content: Say hello}]
    thresold: 0.5
    evaluators: [{name: words, type: heuristic, hits: [hello], mises: [bye]}]
"""
FILE_KEY = "a.eval.yaml:1: descripton: unknown key (did you mean 'description'?)"
CASE_KEYS = [
    "a.eval.yaml:6: evalcases[0].thresold: unknown key (did you mean 'threshold'?)",
    "a.eval.yaml:7: evalcases[0].evaluators[0].mises: unknown key (did you mean 'misses'?)",
]


@pytest.mark.parametrize("mode", [(), ("-n2",)], ids=["plain", "-n2"])
def test_unknown_keys_are_warnings_with_what_was_meant_where_the_project_wants_that(project, mode):
    project.write("a.eval.yaml", UNKNOWN_KEYS)
    run = project.run("-o", "agentv_unknown_keys=warn", mode=mode)
    shown = [line.partition("AgentvWarning: ")[2] for line in run.lines if "AgentvWarning: " in line]
    assert shown == [FILE_KEY, *CASE_KEYS]
    collections = 2 if mode else 1  # each worker warns of the file; pytest shows the text once
    assert (run.exit_code, run.outcomes, run.internals) == (0, {"passed": 1, "warnings": collections + 2}, [])


@pytest.mark.parametrize("flags", [("--agentv-strict",), ("-o", "agentv_strict=true")])
def test_unknown_keys_are_errors_when_the_project_is_strict(project, flags):
    project.write("a.eval.yaml", UNKNOWN_KEYS)
    project.write("b.eval.yaml", UNKNOWN_KEYS.replace("descripton", "description"))
    run = project.run(*flags, "--continue-on-collection-errors")
    assert section(run, "ERROR collecting a.eval.yaml") == [FILE_KEY]
    assert run.results[0]["error"] == "\n".join(CASE_KEYS).replace("a.eval", "b.eval")
    assert run.results[0]["error_detail"] == {"stage": "setup", "kind": "config"}
    assert (run.exit_code, run.outcomes, run.internals) == (1, {"errors": 2}, [])


def test_cases_with_the_same_id_both_run_and_the_warning_names_both_lines(project):
    project.write("a.eval.yaml", "evalcases:" + GOOD + GOOD.lstrip("\n").replace("[hello]", "[goodbye]"))
    run = project.run()
    assert [(result["eval_id"], result["status"]) for result in run.results] == [("good", "pass"), ("good", "fail")]
    assert [result["node_id"] for result in run.results] == ["a.eval.yaml::good", "a.eval.yaml::good-2"]
    shown = [line.partition("AgentvWarning: ")[2] for line in run.lines if "AgentvWarning: " in line]
    assert shown == ["a.eval.yaml:6: evalcases[1]: the id 'good' is used twice, first in line 2"]


JSONL_CASE = json.dumps(
    {
        "id": "good",
        "expected_outcome": "o",
        "input": "q",
        "evaluators": [{"name": "w", "type": "heuristic", "hits": ["hello"]}],
    }
)


BAD_LINES = {
    '{"id": ': "a.eval.jsonl:3: invalid JSON: Expecting value (column 8)",
    "[1]": "a.eval.jsonl:3: expected a JSON object, got [1]",
    '{"id": NaN}': "a.eval.jsonl:3: invalid JSON: NaN is not a JSON number",
}


def test_a_line_of_a_dataset_that_is_no_object_is_a_collection_error(project):
    for number, line in enumerate(BAD_LINES):
        project.write(f"{number}/a.eval.jsonl", f"{JSONL_CASE}\n\n{line}\n")
    run = project.run()
    for number, message in enumerate(BAD_LINES.values()):
        assert section(run, f"ERROR collecting {number}/a.eval.jsonl") == [f"{number}/{message}"]
    assert (run.exit_code, run.outcomes, run.results, run.internals) == (2, {"errors": 3}, [], [])


def test_a_faulty_line_of_a_dataset_is_an_item_that_errors_with_its_line(project):
    project.write("a.eval.jsonl", f'{JSONL_CASE}\n\n{{"id": "bad", "input": 5, "expected_outcome": "o"}}\n')
    run = project.run()
    assert run.statuses == {"good": "pass", "bad": "error"}
    message = (
        "a.eval.jsonl:3: input: expected a list of messages, got the number 5 (put it into quotes as it is written)"
    )
    assert run.by_id["bad"]["error"] == message
    assert (run.outcomes, run.internals) == ({"passed": 1, "errors": 1}, [])


BAD_SIDECARS = {
    "- broken\n": "a.eval.yaml:1: expected a mapping of file-level keys for a.eval.jsonl, got a list",
    "dataset: [1\n": "a.eval.yaml:2: invalid YAML: while parsing a flow sequence that begins on line 1, "
    "did not find expected ',' or ']'",
    "threshold: high\n": "a.eval.yaml:1: threshold: expected a number from 0 to 1, got the text 'high'",
}


def test_a_broken_sidecar_is_one_collection_error_that_names_the_sidecar(project):
    for number, sidecar in enumerate(BAD_SIDECARS):
        project.write(f"{number}/a.eval.jsonl", JSONL_CASE + "\n")
        project.write(f"{number}/a.eval.yaml", sidecar)
    run = project.run()
    for number, message in enumerate(BAD_SIDECARS.values()):
        told = [f"{number}/{message}"]
        assert section(run, f"ERROR collecting {number}/a.eval.jsonl") == told
    assert (run.exit_code, run.outcomes, run.internals) == (2, {"errors": 3}, [])


def test_an_odd_file_of_guideline_patterns_is_an_error_of_each_case_when_the_project_is_strict(project):
    project.write("a.eval.yaml", "evalcases:" + GOOD + GOOD.lstrip("\n").replace("good", "too"))
    project.write(".agentv.yaml", "guideline_pattern: ['**/*.md']\n")
    run = project.run("--agentv-strict")
    message = ".agentv.yaml:1: guideline_pattern: unknown key (did you mean 'guideline_patterns'?)"
    assert [result["error"] for result in run.results] == [message, message]
    assert (run.exit_code, run.outcomes, run.internals) == (1, {"errors": 2}, [])


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (
            "--agentv-output-format=xml",
            "argument --agentv-output-format: unknown output format 'xml': expected one of jsonl, yaml",
        ),
        (
            "--agentv-threshold=high",
            "argument --agentv-threshold: 'high' is not a number: expected a number from 0 to 1",
        ),
        (
            "--agentv-threshold=1.5",
            "argument --agentv-threshold: threshold 1.5 is out of range: expected a number from 0 to 1",
        ),
        (
            "--agentv-threshold=nan",
            "argument --agentv-threshold: nan is not a finite number: expected a number from 0 to 1",
        ),
        (
            "--agentv-timeout=-1",
            "argument --agentv-timeout/--agentv-agent-timeout: -1 is out of range: expected 0 or more seconds (0 "
            "switches the timeout off)",
        ),
        (
            "--agentv-agent-timeout=1m",
            "argument --agentv-timeout/--agentv-agent-timeout: '1m' is not a number: expected 0 or more seconds (0 "
            "switches the timeout off)",
        ),
        ("--agentv-max-retries=-1", "argument --agentv-max-retries: -1 retries are out of range: expected 0 or more"),
        (
            "--agentv-max-retries=two",
            "argument --agentv-max-retries: 'two' is not a number of retries: expected 0 or more",
        ),
        (
            "--agentv-dry-run-delay=soon",
            "argument --agentv-dry-run-delay: 'soon' is not a number: expected 0 or more milliseconds",
        ),
        (
            "--agentv-workers=0",
            "argument --agentv-workers: 0 workers are out of range: expected 1 to 50 (the minimum is 1)",
        ),
        (
            "--agentv-workers=51",
            "argument --agentv-workers: 51 workers are out of range: expected 1 to 50 (the minimum is 1)",
        ),
        (
            "--agentv-workers=-3",
            "argument --agentv-workers: -3 workers are out of range: expected 1 to 50 (the minimum is 1)",
        ),
        ("--agentv-workers=1.5", "argument --agentv-workers: '1.5' is not a number of workers: expected 1 to 50"),
        ("--agentv-workers=many", "argument --agentv-workers: 'many' is not a number of workers: expected 1 to 50"),
    ],
)
@pytest.mark.scenario("Invalid format specification")
@pytest.mark.scenario("Workers flag validation")
@pytest.mark.scenario("Workers flag with invalid range")
@pytest.mark.scenario("Worker limits and validation")
def test_a_bad_flag_value_is_a_usage_error_that_names_the_valid_ones(project, flag, message):
    project.write("a.eval.yaml", "evalcases:" + GOOD)
    run = project.run(flag)
    assert (run.exit_code, run.results, run.internals) == (4, [], [])
    assert sum(line.lower().endswith(f"error: {message}".lower()) for line in run.lines) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "agentv_output_format = xml",
            "agentv_output_format: unknown output format 'xml': expected one of jsonl, yaml",
        ),
        ("agentv_threshold = 7", "agentv_threshold: threshold 7 is out of range: expected a number from 0 to 1"),
        (
            "agentv_timeout = soon",
            "agentv_timeout: 'soon' is not a number: expected 0 or more seconds (0 switches the timeout off)",
        ),
        ("agentv_max_retries = -2", "agentv_max_retries: -2 retries are out of range: expected 0 or more"),
        ("agentv_workers = 99", "agentv_workers: 99 workers are out of range: expected 1 to 50 (the minimum is 1)"),
        ("agentv_strict = perhaps", "agentv_strict: 'perhaps' is neither true nor false"),
    ],
)
def test_a_bad_ini_value_is_an_error_of_the_eval_files_and_of_no_other_test(project, line, message):
    project.write("pytest.ini", f"[pytest]\n{line}\n")
    project.write("a.eval.yaml", "evalcases:" + GOOD)
    project.write("test_neighbour.py", "def test_neighbour(): ...\n")
    run = project.run("--continue-on-collection-errors")
    assert (run.exit_code, run.outcomes, run.results, run.internals) == (1, {"passed": 1, "errors": 1}, [], [])
    assert section(run, "ERROR collecting a.eval.yaml") == [f"pytest.ini: {message}"]


def test_a_bad_ini_value_is_told_once_with_workers_too(project):
    project.write("pytest.ini", "[pytest]\nagentv_threshold = 7\n")
    project.write("a.eval.yaml", "evalcases:" + GOOD)
    run = project.run("-n2")
    message = "pytest.ini: agentv_threshold: threshold 7 is out of range: expected a number from 0 to 1"
    assert run.lines.count(message) == 1
    assert (run.results, run.internals) == ([], [])
    assert run.exit_code != 0


@pytest.mark.parametrize("mode", [(), ("-n2",)], ids=["plain", "-n2"])
def test_a_broken_file_has_the_same_short_line_with_workers(project, mode):
    """Workers of xdist send the text alone, which began with the path once more and had no room for the fault."""
    project.write("evals/tab.eval.yaml", "evalcases:\n\t- id: a\n")
    project.write("evals/typo.eval.yaml", "evalcase: []\n")
    run = project.run("--continue-on-collection-errors", mode=mode)
    told = [line for line in run.lines if line.startswith("ERROR evals/")]
    assert [line[:70] for line in sorted(told)] == [
        "ERROR evals/tab.eval.yaml - line 2: a tab cannot indent YAML: use spac",
        "ERROR evals/typo.eval.yaml - line 1: instead of 'evalcase', did you me",
    ]
    texts = section(run, "ERROR collecting evals/tab.eval.yaml")
    assert len(texts) == 1, "told once, though each worker found it"
    assert texts[0].startswith("evals/tab.eval.yaml:2: invalid YAML")


@pytest.mark.scenario("Mutex error handling")
def test_results_that_cannot_be_written_end_the_run_with_a_clear_message_before_any_case(project):
    project.write("a.eval.yaml", "evalcases:" + GOOD + GOOD.lstrip("\n").replace("good", "too"))
    project.write("taken", "a file where the folder should be\n")
    for mode in ((), ("-n2",)):
        run = project.run(f"--agentv-out={project.path}/taken/out.jsonl", mode=mode)
        assert (run.exit_code, run.outcomes, run.internals) == (pytest.ExitCode.USAGE_ERROR, {}, [])
        reason = f"taken/out.jsonl: cannot be written: {project.path}/taken is a file, not a folder"
        assert [line for line in run.lines if "cannot be written: " in line] == [
            f"ERROR: no results can be recorded: {reason}"
        ]


def test_a_results_file_whose_lock_is_never_released_does_not_hang_the_run(project, monkeypatch):
    monkeypatch.setattr(files, "_LOCK_SECONDS", 0.1)
    project.write("a.eval.yaml", "evalcases:" + GOOD)
    with (lock := files.ProcessLock(project.path / ".out-1.jsonl.lock")).hold(0):
        run = project.run()
    lock.close()
    assert (run.exit_code, run.outcomes, run.internals) == (pytest.ExitCode.USAGE_ERROR, {}, [])
    reason = "out-1.jsonl: cannot be written: its lock .out-1.jsonl.lock could not be taken within 0.1 s"
    assert [line for line in run.lines if "cannot be written: " in line] == [
        f"ERROR: no results can be recorded: {reason}"
    ]


def test_every_fault_is_told_once_in_every_mode(project_in_all_modes):
    project = project_in_all_modes
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello world, respons: x}]\n")
    project.write("a.eval.yaml", UNKNOWN_KEYS + "  - {id: bad, expected_outcome: o, input: 5}\n" + GOOD.lstrip("\n"))
    project.write("b.eval.yaml", "evalcases: 5\n")
    project.write(".agentv.yaml", "guideline_pattern: []\n")
    run = project.run("--continue-on-collection-errors", "--agentv-unknown-keys=warn")
    shown = [line.partition("AgentvWarning: ")[2] for line in run.lines if "AgentvWarning: " in line]
    assert sorted(shown) == sorted(
        [
            FILE_KEY,
            *CASE_KEYS,
            "a.eval.yaml:9: evalcases[2]: the id 'good' is used twice, first in line 3",
            "targets.yaml:1: targets[0].respons: unknown key (did you mean 'response'?)",
            ".agentv.yaml:1: guideline_pattern: unknown key (did you mean 'guideline_patterns'?)",
        ]
    )
    assert run.lines.count("b.eval.yaml:1: evalcases: expected a list of eval cases, got the number 5") == 1
    bad = 'a.eval.yaml:8: evalcases[1].input: expected a list of messages, got the number 5 (put it into quotes: "5")'
    assert run.lines.count(bad) == 1
    assert sorted((result["eval_id"], result["status"]) for result in run.results) == [
        ("bad", "error"),
        ("good", "pass"),
        ("good", "pass"),
    ]
    assert (run.exit_code, run.internals) == (1, [])
    assert (run.outcomes["passed"], run.outcomes["errors"]) == (2, 2)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_folder_of_results_that_is_read_only_costs_the_results_and_not_the_outcomes(project):
    project.write("a.eval.yaml", "evalcases:" + GOOD)
    folder = project.path / "results"
    folder.mkdir(mode=0o500)
    run = project.run(f"--agentv-out={folder}/out.jsonl")
    assert (run.exit_code, run.outcomes, run.internals) == (1, {"passed": 1}, [])
    message = "Results were lost: results/out.jsonl: cannot be written: Permission denied"
    assert [line for line in run.lines if "lost" in line] == [message]
