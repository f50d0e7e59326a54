"""`file://…`, by which promptfoo reads files, is never taken for a text without a word."""

from pathlib import Path

import pytest

from pytest_agentv.cases.evaluators import load_evaluators
from pytest_agentv.cases.references import References, Scope
from pytest_agentv.evaluators.judge import LlmJudge, Rubric, Statements
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.evaluators.text import Contains
from pytest_agentv.files.places import Place
from pytest_agentv.files.source import read_yaml

HEAD = "- id: c\n    expected_outcome: ok\n    "


def faults_of(agentv, case, above=""):
    Path("q.eval.yaml").write_text(f"{above}evalcases:\n  {HEAD}{case}\n", "utf-8")
    run = agentv("validate", "q.eval.yaml")
    return [line for line in run.out.splitlines() if line.startswith("q.eval.yaml")]


@pytest.mark.parametrize(
    ("check", "key", "hint"),
    [
        (
            "not-contains: file://bad.txt",
            "not-contains",
            "(write the text itself, or python: checks.py:function",
        ),
        ("contains: file://my words.txt", "contains", "(write the text itself"),
        ("not-contains-any: [sorry, file://bad.txt]", "not-contains-any[1]", "(write the text itself"),
        ("{type: not-equals, value: file://bad}", "value", "(write the text itself"),
        ("regex: file://pattern.txt", "regex", "(write the text itself"),
        ("{heuristic: {misses: [file://bad.txt]}}", "heuristic.misses[0]", "(write the text itself"),
        ("{field: {path: a, equals: file://a.txt}}", "field.equals", "(write the text itself"),
        (
            "{composite: {assert: [not-contains: file://a.txt], aggregator: {type: weighted_average}}}",
            "evaluators[0].not-contains",
            "(write the text",
        ),
        ("not-contains: file:///tmp/bad.txt", "not-contains", "to look for the address, write regex: '[f]ile:///tmp/"),
        ("is-json: file://schema.json", "is-json", "(write the path alone: schema.json)"),
        ("python: file://judge.py", "python", "(write judge.py:function)"),
        ("python: file://judge.py:get_assert", "python", "(write judge.py:get_assert)"),
        ("python: file://judge.js", "python", "(`python` takes an expression, or file.py:function)"),
        ("llm_judge: {prompt: file://judge.md}", "llm_judge.prompt", "(write the path alone: judge.md)"),
        (
            "code_judge: {script: file://judge.py}",
            "code_judge.script",
            "(write the command: script: [python, judge.py])",
        ),
        ("file://rubric.txt", "", "(write the sentence itself)"),
    ],
)
def test_a_check_that_names_a_file_in_this_way_is_an_error_with_its_line(agentv, check, key, hint):
    item = check if check.startswith(("{", "file")) else f"{{{check}}}"
    faults = faults_of(agentv, f"input: hi\n    assert:\n      - {item}")
    assert len(faults) == 1
    where = "q.eval.yaml:6: error: evalcases[0].assert[0]"
    assert faults[0].startswith(f"{where}.{key}: 'file://" if key else f"{where}: 'file://")
    assert "is a text here: no file is read for it" in faults[0]
    assert hint in faults[0]


@pytest.mark.parametrize(
    "check",
    [
        "not-contains: 'see file:///etc/passwd'",
        "not-contains: 'file://'",
        "not-regex: file://\\S+",
        "regex: '[f]ile:///tmp/x.txt'",
        "equals: {url: file:///tmp/x.txt}",
        "tool-called: {name: open, args: {url: file:///tmp/x.txt}}",
    ],
)
def test_an_address_in_a_longer_text_a_pattern_or_data_is_a_text(agentv, check):
    assert faults_of(agentv, f"input: open file:///tmp/x.txt\n    assert: [{{{check}}}]") == []


@pytest.mark.parametrize(
    ("written", "where", "hint"),
    [
        (
            "input: file://q.txt",
            "4: error: evalcases[0].input",
            "`input: {file: q.txt}` sends its text, the message",
        ),
        ("input: [{role: user, content: file://q.txt}]", "4: error: evalcases[0].input[0]", "`input: {file: q.txt}`"),
        (
            "input: [{role: user, content: [{type: text, value: file://q.txt}]}]",
            "4: error: evalcases[0].input[0].content[0].value",
            "`input: {file: q.txt}` sends",
        ),
        ("input: {file: file://q.txt}", "4: error: evalcases[0].input.file", "(write the path alone: q.txt)"),
        (
            "input: [{role: user, content: [{type: file, value: file://q.txt}]}]",
            "4: error: evalcases[0].input[0].content[0].value",
            "(write the path alone: q.txt)",
        ),
        (
            "input: hi\n    expected_output: file://a.txt",
            "5: error: evalcases[0].expected_output",
            "{role: assistant, ",
        ),
        (
            "vars: {q: file://q.txt}\n    input: 'see {{ q }}'",
            "4: error: evalcases[0].vars.q",
            "`input: {file: q.txt}`",
        ),
        (
            "vars: {q: [file://q.txt]}\n    input: 'see {{ q }}'",
            "4: error: evalcases[0].vars.q[0]",
            "write the text itself",
        ),
        ("input: file:///tmp/q.txt", "4: warning: evalcases[0].input", "`input: {file: /tmp/q.txt}` sends its text"),
        (
            "vars: {q: file:///tmp/q}\n    input: 'see {{ q }}'",
            "4: warning: evalcases[0].vars.q",
            "write the text itself",
        ),
    ],
)
def test_a_message_or_variable_that_names_a_file_is_told(agentv, written, where, hint):
    faults = faults_of(agentv, f"{written}\n    assert: [contains: a]")
    assert len(faults) == 1
    assert faults[0].startswith(f"q.eval.yaml:{where}: ")
    assert hint in faults[0]


@pytest.mark.parametrize("text", ["file://rubric.md", " file://my rubric.md\\n"])
@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ("{expected_outcome: TEXT}", "expected_outcome"),
        ("{criteria: TEXT}", "criteria"),
        ("{criteria: x, rubrics: [Is polite, TEXT]}", "rubrics[1]"),
        ("{criteria: x, rubrics: [{id: a, description: TEXT}]}", "rubrics[0].description"),
        ("{criteria: x, assert: [{rubric: [{description: TEXT}]}]}", "assert[0].rubric[0].description"),
        ("{criteria: x, assert: [{type: llm_judge, rubrics: [TEXT]}]}", "assert[0].rubrics[0]"),
        ("{criteria: x, assert: [{statements: [TEXT]}]}", "assert[0].statements[0]"),
        ("{criteria: x, assert: [Is polite, TEXT]}", "assert[1]"),
        ("{criteria: x, assert: [{field: {path: a, rubric: [{description: TEXT}]}}]}", "assert[0].field.rubric[0]"),
    ],
)
def test_a_text_by_which_a_model_judges_names_no_file(agentv, keys, where, text):
    case = "{id: c, input: hi, " + keys[1:].replace("TEXT", f'"{text}"')
    Path("q.eval.yaml").write_text(f"evalcases:\n  - {case}\n", "utf-8")
    (fault, *_) = agentv("validate", "q.eval.yaml").out.splitlines()
    assert fault.startswith(f"q.eval.yaml:2: error: evalcases[0].{where}")
    assert " is a text here: no file is read for it" in fault


def test_an_outcome_that_is_an_absolute_address_is_a_warning(agentv):
    Path("q.eval.yaml").write_text("evalcases: [{id: c, input: hi, expected_outcome: file:///etc/hosts}]\n", "utf-8")
    (fault, *rest) = agentv("validate", "q.eval.yaml").out.splitlines()
    assert fault.startswith("q.eval.yaml:1: warning: evalcases[0].expected_outcome: 'file:///etc/hosts' is a text here")
    assert "0 errors" in rest[-1]


@pytest.mark.parametrize(
    ("evaluator", "key"),
    [
        (Contains(value="file://a.txt"), "value"),
        (Statements(value=("file://a.txt",)), "value[0]"),
        (LlmJudge(rubrics=(Rubric(description="file://a.txt"),)), "rubrics[0].description"),
    ],
)
def test_a_check_that_was_built_in_python_names_no_file(tmp_path, evaluator, key):
    (tmp_path / "q.yaml").write_text("evaluators: []\n", "utf-8")
    place = Place(read_yaml(tmp_path / "q.yaml"), (), [])
    references = References(tmp_path, tmp_path, tmp_path)
    assert load_evaluators(Scope([evaluator], place, references, EVALUATORS)) == ()
    assert [(each.key, each.message) for each in place.problems] == [
        (f"[0].{key}", "'file://a.txt' is a text here: no file is read for it")
    ]


def test_variables_of_a_file_and_of_a_matrix_that_name_files_are_told_where_they_stand(agentv):
    above = "vars: {q: file://q.txt}\nmatrix:\n  tone: [file://formal.txt]\n"
    faults = faults_of(agentv, "input: '{{ q }}? {{ tone }}!'\n    assert: [contains: a]", above)
    assert [each[: each.index(" is a text")] for each in faults] == [
        "q.eval.yaml:1: error: vars.q: 'file://q.txt'",
        "q.eval.yaml:3: error: matrix.tone: 'file://formal.txt'",
    ]


def test_a_column_that_names_files_is_a_warning_and_a_message_made_of_it_an_error_of_the_row(agentv):
    Path("q.csv").write_text("n,text\n1,file://q.txt\n2,hi\n", "utf-8")
    case = "case: {id: 'q-{{ n }}', input: '{{ text }}', assert: [contains: a]}"
    Path("q.eval.yaml").write_text(f"tests: q.csv\n{case}\n", "utf-8")
    out = agentv("validate", "q.eval.yaml").out
    assert "q.eval.yaml:2: warning: case: the column 'text' has file://…, for which no file is read" in out
    assert "q.eval.yaml:2: error: case.input: 'file://q.txt' is a text here" in out
    assert "q.csv:2" in out
    assert "1 file checked: 1 error, 2 warnings" in out


@pytest.mark.parametrize("listed", ["file://cases.csv", "[file://cases.csv]", "{from: file://cases.csv}"])
def test_a_table_that_is_named_in_this_way_says_to_write_its_path_alone(agentv, listed):
    Path("q.eval.yaml").write_text(f"tests: {listed}\n", "utf-8")
    out = agentv("validate", "q.eval.yaml").out
    assert "there is no file file://cases.csv (write the path alone: cases.csv)" in out
