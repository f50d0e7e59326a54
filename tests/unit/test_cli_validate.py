"""`agentv validate`: what is wrong with files, all at once, without a run."""

import json
import os
from pathlib import Path

import pytest

GOOD = """\
evalcases:
  - id: a
    expected_outcome: o
    input_messages: [{role: user, content: q}]
    evaluators: [{name: fast, type: latency, threshold: 9}]
"""
NO_CASES = "has no eval cases: expected a JSON object with id and input on each line"
TARGETS = "targets: [{name: default, provider: mock}]\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOT_SET", raising=False)
    (tmp_path / ".git").mkdir()
    return tmp_path


def write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "doubt"),
    [
        ("[python3, judges/nope.py]", "there is no script 'judges/nope.py' in evals/judges"),
        ("[node, jugde.mjs]", "there is no script 'jugde.mjs' in evals (did you mean 'judge.mjs'?)"),
        ("[bun, run.ts, judge.ts], cwd: ../other", "there is no script 'run.ts' in other"),
        ("[node, judge.mjs]", None),
        ("[python3, -m, judge.py]", None),
        ("[judge, data.csv]", None),
        ("[./nope.sh]", None),
    ],
)
def test_a_judge_script_that_is_not_there_is_a_warning(agentv, words, doubt):
    write("other/x", "")
    write("evals/judge.mjs", "")
    write("evals/targets.yaml", TARGETS)
    write(
        "evals/qa.yaml",
        GOOD.replace("{name: fast, type: latency, threshold: 9}", f"{{type: code_judge, script: {words}}}"),
    )
    run = agentv("validate", "evals")
    expected = [] if doubt is None else [f"evals/qa.yaml:2: warning: a: evaluator 'code_judge': {doubt}"]
    assert [line for line in run.out.splitlines() if "script" in line] == expected


@pytest.mark.parametrize(
    ("target", "doubt"),
    [
        (
            "provider: python, callable: 'agnet.py:run'",
            "callable: there is no file 'agnet.py' in . (did you mean 'agent.py'?)",
        ),
        ("provider: asgi, app: 'web/app.py:app'", "app: there is no file 'web/app.py' in ."),
        (
            "provider: cli, command_template: x, cwd: ../agnet",
            "cwd: there is no folder '../agnet' for cases in evals (did you mean 'agent'?)",
        ),
        (
            "provider: cli, command_template: x, cwd: /nowhere/x",
            "cwd: there is no folder '/nowhere/x' for cases in evals",
        ),
        ("provider: python, callable: 'package.of.mine:run'", None),
        ("provider: python, callable: '${{ AGENT }}.py:run'", None),
        ("provider: cli, command_template: x, cwd: '${{ WHERE }}'", None),
    ],
)
def test_code_of_a_target_that_is_not_there_is_told_and_is_no_error(agentv, target, doubt):
    write("other/x", "")
    write("agent.py", "")
    write("agent/x", "")
    write("evals/qa.yaml", GOOD)
    write("targets.yaml", f"targets:\n  - {{name: unused, provider: mock}}\n  - {{name: default, {target}}}\n")
    run = agentv("validate", "--strict", "targets.yaml", "evals")
    expected = [] if doubt is None else [f"targets.yaml:3: warning: targets[1].{doubt}"]
    assert (run.out.splitlines()[:-1], run.exit_code) == (expected, 0)


GUIDED = """\
evalcases:
  - {id: plain, expected_outcome: o, input: q, evaluators: [{equals: x}]}
  - id: all
    expected_outcome: o
    input: [{role: user, content: [{type: file, value: blank.prompt.md}, {type: file, value: a.prompt.md}]}]
    evaluators: [{equals: x}]
  - id: again
    expected_outcome: o
    input: [{role: user, content: [{type: file, value: a.prompt.md}, {type: text, value: q}]}]
    evaluators: [{equals: x}]
"""
NAMED = """\
evalcases:
  - id: named
    expected_outcome: o
    input:
      - {role: user, content: [{type: file, value: a.prompt.md}, {type: text, value: q}]}
      - {role: assistant, content: a}
      - {role: user, content: q}
    evaluators: [{equals: x}]
"""
LOST = "target 'default' does not get the guideline 'a.prompt.md'"
WRITE = "(write {GUIDELINES}, their texts, or {FILES}, their paths, into its command_template or stdin)"


@pytest.mark.parametrize(
    ("target", "is_lost"),
    [
        ("provider: cli, command_template: 'x {PROMPT}'", True),
        ("provider: cli, command_template: 'x $AGENTV_PROMPT'", True),
        ("provider: cli, command_template: x, stdin: '{PROMPT_JSON}'", True),
        ("provider: cli, command_template: 'x {PROMPT} {GUIDELINES}'", False),
        ("provider: cli, command_template: 'x {PROMPT} {ATTACHMENTS}'", False),
        ("provider: cli, command_template: 'x {PROMPT}', provider_batching: true", False),
    ],
)
def test_guidelines_that_a_command_does_not_get_are_told_once(agentv, target, is_lost):
    write("a.prompt.md", "RULE")
    write("blank.prompt.md", " ")
    write("qa.eval.yaml", GUIDED)
    write("named.eval.yaml", NAMED)
    write("targets.yaml", f"targets: [{{name: default, {target}}}]\n")
    run = agentv("validate", "--strict", "targets.yaml", "qa.eval.yaml", "named.eval.yaml")
    expected = [f"qa.eval.yaml:3: warning: all: {LOST}, and is asked nothing else {WRITE}"] if is_lost else []
    assert (run.out.splitlines()[:-1], run.exit_code) == (expected, 0)


def test_a_targets_file_that_is_named_is_the_one_that_counts(agentv):
    write("qa.eval.yaml", GOOD)
    write("there/targets.yaml", "targets: [{name: defalt, provider: mock}]\n")
    run = agentv("validate", "qa.eval.yaml", "--targets", "there")
    assert run.exit_code == 1
    assert run.out == (
        "qa.eval.yaml:2: error: there/targets.yaml: no target 'default'; did you mean 'defalt'? available: defalt\n"
        "1 file checked: 1 error, 0 warnings\n"
    )
    assert agentv("validate", "qa.eval.yaml", "--targets", "nowhere").out == (
        "nowhere: error: there is no such targets file or folder\n1 file checked: 1 error, 0 warnings\n"
    )


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_code_of_the_project_says_is_masked_and_does_not_mix_with_the_report(agentv, monkeypatch, form):
    monkeypatch.setenv("SHOP_API_KEY", "sk-very-secret-4711")
    write("targets.yaml", TARGETS)
    write("qa.eval.yaml", "evalcases: {from: 'cases.py:make'}\ncase: {id: '{{ id }}', input: q}\n")
    write("cases.py", "def make():\n    print('connecting')\n    raise ValueError('sk-very-secret-4711 expired')\n")
    write("conftest.py", "def pytest_agentv_providers():\n    raise ValueError('sk-very-secret-4711 refused')\n")

    run = agentv("validate", f"--format={form}", ".")

    assert run.exit_code == 1
    assert "connecting" not in run.out
    assert "cases.py:make raised ValueError: *** expired" in run.out
    assert "ValueError: *** refused" in run.out
    assert "very-secret" not in run.out + run.err
    if form == "json":
        assert json.loads(run.out)["errors"] == 1


def test_kinds_of_plugins_are_known_when_they_are_named(agentv):
    write("targets.yaml", "targets: [{name: default, provider: ours}]\n")
    write("qa.eval.yaml", GOOD.replace("type: latency", "type: mine"))
    assert agentv("validate", ".").exit_code == 1
    run = agentv("validate", ".", "--plugin-kind", "mine", "--plugin-kind=ours")
    assert (run.exit_code, run.out) == (0, "2 files checked: nothing wrong\n")


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [

        (
            "any.yaml",
            "$schema: agentv-config-v2\nguideline_patterns: 5\n",
            "any.yaml:2: error: guideline_patterns: expected a list of glob patterns, got the number 5",
        ),
        (
            ".agentv.yaml",
            "- x\n",
            ".agentv.yaml:1: error: expected a mapping with the key guideline_patterns, got a list",
        ),
        (
            ".agentv/targets.yaml",
            "x",
            ".agentv/targets.yaml:1: error: expected a mapping with the key targets, got the text 'x'",
        ),


        ("any.jsonl", "", f"any.jsonl:1: error: {NO_CASES}, got an empty file"),
        ("any.eval.jsonl", '{"id": 1}\n', "any.eval.jsonl:1: error: input_messages: is missing: expected a list of "
         "messages"),
        ("any.txt", "x", "any.txt: error: is not an eval file: expected a name that ends in .yaml, .yml or .jsonl"),
        ("empty", None, "empty: error: no eval, targets or config files in this folder"),
    ],
)  # fmt: skip
def test_the_kind_of_a_file_is_told_by_its_schema_or_its_name(agentv, folder, name, text, problem):
    if text is None:
        (folder / name).mkdir()
    else:
        write(name, text)
    run = agentv("validate", name)
    assert run.exit_code == 1
    assert run.out.splitlines()[0] == problem


def test_a_folder_that_links_to_itself_ends(agentv, folder):
    write("evals/qa.yaml", GOOD)
    write("targets.yaml", TARGETS)
    (folder / "evals" / "again").symlink_to(folder / "evals")
    assert agentv("validate", ".").out == "2 files checked: nothing wrong\n"


def test_globs_stand_for_the_files_they_match(agentv):
    write("evals/qa.yaml", GOOD)
    write("evals/deep/qa.yml", GOOD.replace("expected_outcome", "outcom"))
    write("evals/notes.txt", "x")
    write("targets.yaml", TARGETS)
    run = agentv("validate", "evals/**/*")
    assert run.out.splitlines()[-1] == "2 files checked: 1 error, 0 warnings"
    assert run.out.startswith("evals/deep/qa.yml:")
    assert agentv("validate", "evals/*.yaml").out == "1 file checked: nothing wrong\n"
    assert agentv("validate", "x/*.yaml").out.startswith("x/*.yaml: error: no file matches\n")


@pytest.mark.parametrize("name", ["evals/qa.yaml", "evals/qa.jsonl", "evals/targets.yaml"])
def test_a_pipe_is_not_waited_for(agentv, name):
    write("evals/other.yaml", GOOD)
    os.mkfifo(name)
    assert agentv("validate", name).out.startswith(
        f"{name}: error: cannot be read: expected a regular file, not a folder, a pipe or a device\n"
    )
    agentv("validate", "evals")


@pytest.mark.parametrize(
    ("expected", "doubt"),
    [
        ("", "there is no expected data, so no answer can pass"),
        ("expected_output: a text, ", "there is no expected data, so no answer can pass"),
        ("expected_output: {price: soon}, ", "the expected 'price' is the text 'soon', and no number"),
        (
            "expected_output: [{role: assistant, content: [{type: file, value: ideal.txt}]}], ",
            "the text and file parts of the expected message hold no JSON to compare the answer with",
        ),
    ],
)
def test_expected_data_that_no_answer_can_meet_are_a_warning(agentv, expected, doubt):
    write("evals/ideal.txt", "120 euros")
    field = "{type: field_accuracy, fields: [{path: price, match: numeric_tolerance}]}"
    write("evals/qa.yaml", f"evalcases:\n- {{id: a, input: q, {expected}assert: [{field}]}}\n")
    write("evals/targets.yaml", TARGETS)
    run = agentv("validate", "evals")
    (line,) = [line for line in run.out.splitlines() if "qa.yaml" in line]
    assert f"evals/qa.yaml:2: warning: a: evaluator 'field_accuracy': {doubt}" in line
