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

WRONG = """\
descriptoin: x
evalcases:
  - id: a
    expected_outcome: o
    input_messages: [{role: usr, content: q}]
  - id: b
    input_messages: [{role: user, content: [{type: file, value: gone.md}]}]
    evaluators:
      - {name: n, type: latency}
      - {name: n, type: latencyy}
  - id: a
    expected_outcome: o
    outcome: p
    execution: {target: azur}
    input_messages: [{role: user, content: q}]
"""
WRONG_TARGETS = """\
targets:
  - {name: azure, provider: azure, endpoint: "${{ NOT_SET }}", api_kye: "${{ NOT_SET }}"}
  - {name: cli, provider: cli, command_template: "run {PROMPTT}", workers: 0}
  - {provider: mock}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOT_SET", raising=False)
    (tmp_path / ".git").mkdir()
    return tmp_path


def write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


def test_files_without_a_fault_are_counted(agentv):
    write("evals/qa.yaml", GOOD)
    write("evals/targets.yaml", TARGETS)
    run = agentv("validate", "evals")
    assert (run.exit_code, run.out, run.err) == (0, "2 files checked: nothing wrong\n", "")


def test_all_faults_of_all_files_are_told_at_once_with_their_places(agentv, golden):
    write("evals/wrong.yaml", WRONG)
    write("evals/broken.eval.yaml", "evalcases:\n  - id: a\n   id: b\n")
    write("evals/lines.eval.jsonl", '{"id": "a", "expected_outcome": "o", "input": "q"}\n{"id": \n')
    write("evals/targets.yaml", TARGETS)
    write("other/targets.yaml", WRONG_TARGETS)
    write(".agentv/config.yaml", "guideline_pattern: ['*.md']\nguideline_patterns: '*.md'\n")
    run = agentv("validate", ".", "gone.yaml")
    assert (run.exit_code, run.err) == (1, "")
    assert run.out == golden("cli/validate.txt")


def test_faults_of_repeats_are_told(agentv):
    write(
        "evals/qa.yaml",
        "repeat: 3\nmin_pass_rate: 0.6\n" + GOOD + "    repeat: 0\n    min_pass_rate: 80\n    grup: x\n",
    )
    write("evals/targets.yaml", TARGETS)
    lines = agentv("validate", "evals").out.splitlines()
    assert (
        "evals/qa.yaml:8: error: evalcases[0].repeat: expected a whole number from 1 to 100, got the number 0" in lines
    )
    rate = "expected a number from 0 to 1, such as 0.8 for 4 of 5, got the number 80"
    assert f"evals/qa.yaml:9: error: evalcases[0].min_pass_rate: {rate}" in lines
    assert any("did you mean 'group'" in line for line in lines)


def test_json_says_the_same_by_field(agentv, folder):
    write("evals/wrong.yaml", WRONG)
    write("evals/targets.yaml", TARGETS)
    text, run = agentv("validate", "evals"), agentv("validate", "--format=json", "evals")
    report = json.loads(run.out)
    assert run.exit_code == 1
    assert report["files"] == ["evals/targets.yaml", "evals/wrong.yaml"]
    assert (report["errors"], report["warnings"]) == (5, 3)
    assert report["problems"][0] == {
        "path": "evals/wrong.yaml",
        "line": 1,
        "key": "descriptoin",
        "message": "unknown key",
        "hint": "did you mean 'description'?",
        "level": "warning",
    }
    assert len(report["problems"]) == len(text.out.splitlines()) - 1


@pytest.mark.parametrize(
    ("words", "doubt"),
    [
        ("[python3, judges/nope.py]", "there is no script 'judges/nope.py' in evals/judges"),
        ("[node, jugde.mjs]", "there is no script 'jugde.mjs' in evals (did you mean 'judge.mjs'?)"),
        ("[bun, run.ts, judge.ts], cwd: ../other", "there is no script 'run.ts' in other"),
        ("[node, judge.mjs]", None),
        ("[python3, -m, judge.py]", None),
        ("[judge, data.csv]", None),
        ("[./check, answer.py]", None),
        ("[/usr/bin/python3.11, nope.py]", "there is no script 'nope.py' in evals"),
        ("[./nope.sh]", None),
    ],
)
def test_a_judge_script_that_is_not_there_is_a_warning(agentv, words, doubt):
    """It would show after the answer is paid for. It is no fault: an agent may write it."""
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
        ("provider: python, callable: 'agent.py:run'", None),
        ("provider: python, callable: 'package.of.mine:run'", None),
        ("provider: python, callable: '${{ AGENT }}.py:run'", None),
        ("provider: cli, command_template: x, cwd: ../other", None),
        ("provider: cli, command_template: x, cwd: '${{ WHERE }}'", None),
        ("provider: cli, command_template: x", None),
    ],
)
def test_code_of_a_target_that_is_not_there_is_told_and_is_no_error(agentv, target, doubt):
    """It showed when the run began. It may be made by then, so a strict check does not fail either."""
    write("other/x", "")
    write("agent.py", "")
    write("agent/x", "")
    write("evals/qa.yaml", GOOD)
    write("targets.yaml", f"targets:\n  - {{name: unused, provider: mock}}\n  - {{name: default, {target}}}\n")
    run = agentv("validate", "--strict", "targets.yaml", "evals")
    expected = [] if doubt is None else [f"targets.yaml:3: warning: targets[1].{doubt}"]
    assert (run.out.splitlines()[:-1], run.exit_code) == (expected, 0)


def test_a_folder_is_missed_only_where_a_case_asks_its_target(agentv):
    write("evals/qa.yaml", GOOD)
    other = "{name: other, provider: cli, command_template: x, cwd: gone}"
    write("targets.yaml", f"targets: [{{name: default, provider: mock}}, {other}]\n")
    assert agentv("validate", ".").out == "2 files checked: nothing wrong\n"


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
        ("provider: cli, command_template: 'x {PROMPT_FILE} {OUTPUT_FILE}'", True),
        ("provider: cli, command_template: 'x $AGENTV_PROMPT'", True),
        ("provider: cli, command_template: x, stdin: '{PROMPT_JSON}'", True),
        ("provider: cli, command_template: 'x {PROMPT} {GUIDELINES}'", False),
        ("provider: cli, command_template: 'x {PROMPT}', stdin: '{FILES}'", False),
        ("provider: cli, command_template: 'x {PROMPT} {ATTACHMENTS}'", False),
        ("provider: cli, command_template: 'x {EVAL_ID}'", False),
        ("provider: cli, command_template: 'x {PROMPT}', provider_batching: true", False),
        ("provider: mock", False),
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


def test_warnings_alone_are_no_failure_unless_they_are_to_be(agentv):
    write("targets.yaml", TARGETS)
    write("qa.eval.yaml", f"descriptoin: x\n{GOOD}")
    run, strict = agentv("validate", "."), agentv("validate", ".", "--strict")
    assert (run.exit_code, strict.exit_code) == (0, 1)
    assert run.out == strict.out
    assert run.out == (
        "qa.eval.yaml:1: warning: descriptoin: unknown key (did you mean 'description'?)\n"
        "2 files checked: 0 errors, 1 warning\n"
    )


def test_without_a_targets_file_there_is_a_warning_because_a_run_may_name_one(agentv, folder):
    write("qa.eval.yaml", GOOD)
    run = agentv("validate", "qa.eval.yaml")
    assert run.exit_code == 0
    assert run.out == (
        "targets.yaml: warning: no targets file found: tried targets.yaml, targets.yml, .agentv/targets.yaml, "
        ".agentv/targets.yml in .; name one with --agentv-targets\n1 file checked: 0 errors, 1 warning\n"
    )


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


def test_a_target_that_would_judge_itself_is_an_error_of_the_case_that_needs_a_judge(agentv):
    write("targets.yaml", 'targets: [{name: default, provider: cli, command_template: "run {PROMPT}"}]\n')
    write("qa.eval.yaml", GOOD + "  - {id: b, expected_outcome: o, input: q}\n")
    run = agentv("validate", "qa.eval.yaml")
    assert run.exit_code == 1
    assert run.out == (
        "qa.eval.yaml:6: error: target 'default' (targets.yaml:1) would have to judge its own answers: give it a model "
        "as judge, `judge_target: <name of a target>`, or give the case evaluators that need no model\n"
        "1 file checked: 1 error, 0 warnings\n"
    )


def test_a_placeholder_in_quotes_is_an_error(agentv):
    write("targets.yaml", "targets:\n  - name: default\n    provider: cli\n    command_template: echo '{PROMPT}'\n")
    run = agentv("validate", "targets.yaml")
    assert run.exit_code == 1
    assert run.out.startswith(
        "targets.yaml:4: error: targets[0].command_template: {PROMPT} stands inside single quotes, where its text "
        "could run as a command; "
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
            '$schema: agentv-targets-v2.2\ntargets: "x"\n',
            "any.yaml:2: error: targets: expected a list of targets, got the text 'x'",
        ),
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
        ("any.yaml", "x: 1\n", "any.yaml:1: error: has no list of cases: evalcases is missing"),
        ("any.jsonl", '{"id": 1}\n', f"any.jsonl:1: error: {NO_CASES}, got the keys id"),
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


def test_rows_whose_checks_name_a_column_are_one_error(agentv):
    write("targets.yaml", TARGETS)
    write("q.csv", "id,input,answer\n1,one,eins\n2,two,zwei\n")
    write("q.eval.yaml", "evalcases: {from: q.csv}\nassert: [{contains: '{{ answer }}'}]\n")
    run = agentv("validate", "q.eval.yaml")
    assert run.exit_code == 1
    assert run.out.startswith("q.eval.yaml:2: error: assert[0].contains: {{ answer }} stays as it is, because the rows")
    assert "[q.csv:2 and 1 more]\n1 file checked: 1 error, 0 warnings\n" in run.out


def test_a_sidecar_is_checked_as_part_of_its_dataset(agentv):
    write("targets.yaml", TARGETS)
    write("lines.jsonl", '{"id": "a", "expected_outcome": "o", "input": "q"}\n')
    write("lines.yaml", "descriptoin: x\n")
    run = agentv("validate", "lines.yaml")
    assert run.out == (
        "lines.yaml:1: warning: descriptoin: unknown key (did you mean 'description'?)\n"
        "1 file checked: 0 errors, 1 warning\n"
    )


def test_files_of_others_and_of_dependencies_are_passed_over_in_folders(agentv):
    write("evals/qa.yaml", GOOD)
    write("targets.yaml", TARGETS)
    for name in ("compose.yaml", "node_modules/x/targets.yaml", ".venv/evals/x.eval.yaml", "evals/results.jsonl"):
        write(name, '{"eval_id": "a", "score": 1}\n')
    assert agentv("validate", ".").out == "2 files checked: nothing wrong\n"


def test_a_folder_that_links_to_itself_ends(agentv, folder):
    write("evals/qa.yaml", GOOD)
    write("targets.yaml", TARGETS)
    (folder / "evals" / "again").symlink_to(folder / "evals")
    assert agentv("validate", ".").out == "2 files checked: nothing wrong\n"


def test_nothing_that_a_file_holds_reaches_the_terminal_unescaped(agentv):
    write("targets.yaml", TARGETS)
    write("qa.eval.yaml", '"\\e[31mred": x\n' + GOOD)
    assert agentv("validate", "qa.eval.yaml").out.startswith("qa.eval.yaml:1: warning: \\x1b[31mred: unknown key\n")


@pytest.mark.parametrize(
    ("check", "fault"),
    [
        ("{type: contains, vlu: x}", "value: is missing (is 'vlu' a misspelling of it?)"),
        ("{typ: contains, value: x}", "words (is 'typ' a misspelling of it?)"),
    ],
)
def test_a_misspelt_key_of_a_check_is_one_fault(agentv, check, fault):
    write("targets.yaml", TARGETS)
    write("qa.eval.yaml", f"evalcases:\n  - {{id: a, input: hi, assert: [{check}]}}\n")
    line, count = agentv("validate", "qa.eval.yaml").out.splitlines()
    assert line.endswith(fault)
    assert count == "1 file checked: 1 error, 0 warnings"


@pytest.mark.parametrize("key", ["comand_template", "cmd_templ"])
def test_a_misspelt_key_of_a_target_is_one_fault(agentv, key):
    write("targets.yaml", f"targets: [{{name: default, provider: cli, {key}: echo hi}}]\n")
    fault = f"targets.yaml:1: error: targets[0].command_template: is missing (is {key!r} a misspelling of it?)"
    assert agentv("validate", "targets.yaml").out.splitlines() == [fault, "1 file checked: 1 error, 0 warnings"]


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


def test_without_a_path_the_usage_is_told(agentv):
    run = agentv("validate")
    assert run.exit_code == 2
    assert run.err == (
        "agentv validate: missing: PATH (a file, a glob, or a folder that is searched for all of them)\n"
        "Try: agentv validate --help\n"
    )


@pytest.mark.parametrize("start", ["", "$schema: agentv-eval-v2\n"])
def test_files_of_a_folder_that_their_names_leave_out_are_told(agentv, start):
    write("evals/qa.yaml", GOOD)
    write("evals/targets.yaml", TARGETS)
    write("evals/test_math.yaml", start + GOOD)
    write("evals/test_other.yaml", "stages: []\n")
    run, strict = agentv("validate", "evals"), agentv("validate", "evals", "--strict")
    assert (run.exit_code, strict.exit_code) == (0, 1)
    assert (
        f"evals/test_math.yaml:{len(start.splitlines()) + 1}: warning: has a list of cases but is not collected: "
        "names like test_*.yaml belong to other files (rename it to math.eval.yaml, or add its name to the ini key "
        "agentv_files)\n"
    ) in run.out
    assert "test_other" not in run.out


def test_cases_beside_a_dataset_of_their_name_are_checked(agentv):
    write("evals/targets.yaml", TARGETS)
    write("evals/qa.jsonl", '{"id": "a", "expected_outcome": "o", "input": "q", "evaluators": []}\n')
    write("evals/qa.yaml", GOOD.replace("expected_outcome", "expected_outcom"))
    assert (
        "evals/qa.yaml:3: error: evalcases[0].expected_outcom: unknown key (did you" in agentv("validate", "evals").out
    )


@pytest.mark.parametrize("name", ["evals/qa.yaml", "evals/qa.jsonl", "evals/targets.yaml"])
def test_a_pipe_is_not_waited_for(agentv, name):
    write("evals/other.yaml", GOOD)
    os.mkfifo(name)
    assert agentv("validate", name).out.startswith(
        f"{name}: error: cannot be read: expected a regular file, not a folder, a pipe or a device\n"
    )
    agentv("validate", "evals")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"description: x\nexecution: {{target: nope}}\n{GOOD}", 2),
        (f"{GOOD}target: nope\n", 6),
        (f"{GOOD}    execution:\n      target: nope\n", 7),
    ],
)
def test_an_unknown_target_is_told_where_it_is_named(agentv, text, line):
    write("targets.yaml", TARGETS)
    write("qa.eval.yaml", text)
    run = agentv("validate", "qa.eval.yaml")
    assert run.out.startswith(f"qa.eval.yaml:{line}: error: targets.yaml: no target 'nope'; available: default\n")


def test_an_unknown_target_of_a_sidecar_is_told_at_the_sidecar(agentv):
    write("targets.yaml", TARGETS)
    write("qa.eval.jsonl", '{"id": "a", "expected_outcome": "o", "input": "q", "evaluators": []}\n')
    write("qa.eval.yaml", "description: x\ntarget: nope\n")
    assert agentv("validate", "qa.eval.jsonl").out.startswith("qa.eval.yaml:2: error: targets.yaml: no target 'nope'")


def test_a_missing_target_of_embeddings_is_told(agentv):
    write("evals/targets.yaml", TARGETS)
    write("evals/qa.yaml", "evalcases:\n- {id: a, input: q, assert: [{field: {path: a, similar: x, target: emb}}]}\n")
    assert "evals/qa.yaml:2: error: evals/targets.yaml: no target 'emb'" in agentv("validate", "evals").out


def test_a_missing_target_of_a_short_check_is_told(agentv):
    write("evals/targets.yaml", TARGETS)
    write("evals/qa.yaml", "evalcases:\n- {id: a, input: q, assert: [{similar: x, target: nope}]}\n")
    assert "evals/qa.yaml:2: error: evals/targets.yaml: no target 'nope'" in agentv("validate", "evals").out


FIELDS = """\
evalcases:
  - id: a
    expected_outcome: o
    input: q
    expected_messages: [{role: assistant, content: {price: 1}}]
    evaluators: [EVALUATOR]
  - id: b
    expected_outcome: o
    input: q
    evaluators: [EVALUATOR]
"""
FIELD = "{name: data, type: field_accuracy, fields: [{path: price, match: exact}, {path: prise, match: exact}]}"
COMPOSITE = f"{{name: whole, type: composite, aggregator: {{type: weighted_average}}, evaluators: [{FIELD}]}}"


@pytest.mark.parametrize("evaluator", [FIELD, COMPOSITE], ids=["alone", "in a composite"])
def test_a_field_that_nothing_is_expected_of_is_a_warning(agentv, evaluator):
    write("evals/qa.yaml", FIELDS.replace("EVALUATOR", evaluator))
    write("evals/targets.yaml", TARGETS)
    run = agentv("validate", "evals")
    (line,) = [line for line in run.out.splitlines() if "prise" in line]
    assert "evals/qa.yaml:2: " in line
    assert "evaluator 'data': the expected data has no 'prise': this field counts as met" in line
    assert (run.exit_code, agentv("validate", "evals", "--strict").exit_code) == (0, 1)


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
