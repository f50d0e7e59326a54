"""Which files are eval files: by name, by place and shape, or named on the command line; all others are let be."""

import json
from pathlib import Path

import pytest

from .conftest import agentv

LINE = json.dumps({"id": "line", "expected_outcome": "x", "input": "Say it", "evaluators": []})
RESULT_LINE = json.dumps({"timestamp": "2026-01-01", "eval_id": "a", "score": 1, "candidate_answer": "x"})
OPENAPI = "openapi: 3.1.0\npaths: {}\n"
COMPOSE = "services:\n  web: {image: nginx}\n"
OTHER_COLLECTOR = """
import pytest



class File(pytest.File):
    def collect(self):
        yield Item.from_parent(self, name="foreign")

class Item(pytest.Item):
    def runtest(self): ...

def pytest_collect_file(file_path, parent):
    if file_path.name.endswith(".tavern.yaml"):
        return File.from_parent(parent, path=file_path)
"""
TAVERN = "test_name: login\nstages:\n  - name: first\n    request: {url: x}\n"


@pytest.fixture
def project(project):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello world}]\n")
    return project


@pytest.fixture
def case_list(suite):
    """The text of a file that has the shape of an eval file."""
    return suite(a="hello")


def collected(run):
    return sorted({line.partition("::")[0] for line in run.lines if "::" in line})


EVAL_FILES = [
    "qa.eval.yaml",
    "qa.eval.yml",
    "deep/er/qa.eval.yaml",
    "test_qa.eval.yaml",
    ".hidden/qa.eval.yaml",
    "evals/qa.yaml",
    "evals/qa.yml",
    "evals/deep/er/qa.yaml",
    "deep/evals/qa.yaml",
    "src/evals/my-dataset.yaml",
    "folder.eval.yaml/inner.eval.yaml",
]
DATASETS = ["lines.eval.jsonl", "evals/lines.jsonl", "deep/evals/deep/lines.jsonl"]
"""Of one case a line."""

FILES_OF_OTHERS = [
    "qa.yaml",
    "other/qa.yaml",
    "my_evals/qa.yaml",
    "qa.evals.yaml",
    "evals/targets.yaml.bak",
    "evals/.agentv/qa.yaml",
    "evals/.hidden/deep/qa.yaml",
    ".agentv/evals/qa.yaml",
    "test_login.yaml",
    "compose.yaml",
    "evals/qa.yaml.bak",
    "evals/qa.json",
    "evals/qa.txt",
]
FOREIGN_YAML = [
    OPENAPI,
    COMPOSE,
    TAVERN,
    "",
    "- just\n- a list\n",
    "broken: [\n",
    "cases: none\n",
    "tests:\n  - command: make\n",
    "# evalcases:\n#   - id: a\n",
    "suite:\n  evalcases:\n    - id: a\n",
    "\x00\x01binary",
    "{{- if .Values.tests }}\nkind: Test\ntests: {{ .Values.tests }}\n{{- end }}\n",
]
FOREIGN_LINES = [RESULT_LINE, "", '"text"', "[1]", '{"id": 1}', '{"input": "x"}', "no JSON {"]


def test_eval_files_are_found_by_name_or_below_a_folder_named_evals_and_files_of_others_are_let_be(project, case_list):
    project.write("pytest.ini", "[pytest]\nnorecursedirs =\n")
    for name in (*EVAL_FILES, *FILES_OF_OTHERS):
        project.write(name, case_list)
    for name in DATASETS:
        project.write(name, f"{LINE}\n")
    for number, text in enumerate(FOREIGN_YAML):
        project.write(f"evals/foreign-{number}.yaml", text)
    for number, text in enumerate((OPENAPI, COMPOSE, TAVERN, "targets: [{name: a, provider: mock}]\n")):
        for name in ("test_login.yaml", "compose.yaml", "targets.yaml"):
            project.write(f"evals/{number}/{name}", text)
    for number, text in enumerate(FOREIGN_LINES):
        project.write(f"evals/foreign-{number}-results.jsonl", f"{text}\n")
    (project.path / "evals/link.yaml").symlink_to(project.path / EVAL_FILES[0])
    run = project.run("--collect-only", "-q")
    assert collected(run) == sorted([*EVAL_FILES, *DATASETS, "evals/link.yaml"])
    assert (run.exit_code, "Warning" in run.text, "foreign" in run.text) == (0, False, False)


def test_workers_tell_of_each_file_once_and_run_the_others(project, case_list):
    project.write("evals/qa.yaml", case_list)
    project.write("evals/test_math.yaml", case_list)
    project.write("bad.eval.yaml", OPENAPI)
    project.write("other.yaml", OPENAPI)
    run = project.run("other.yaml", "evals", "bad.eval.yaml", "-n", "2")
    assert run.text.count("evals/test_math.yaml:1: has a list of cases but is not collected") == 1
    for name in ("other.yaml", "bad.eval.yaml"):
        assert run.lines.count(f"{name}:1: has no list of cases: cases is missing") == 1
    assert (run.exit_code, run.outcomes["errors"]) == (pytest.ExitCode.TESTS_FAILED, 2)
    assert run.statuses == {"a": "pass"}


def test_a_file_of_another_kind_that_another_plugin_collects_is_not_warned_of(project, case_list):
    project.write("conftest.py", OTHER_COLLECTOR)
    project.write("evals/login.tavern.yaml", case_list)
    project.write("other.tavern.yaml", OPENAPI)
    run = project.run("evals", "other.tavern.yaml")
    assert (run.exit_code, run.outcomes) == (0, {"passed": 2})


@pytest.mark.parametrize("name", ["data.eval", "evals/data"])
def test_a_yaml_file_with_cases_beside_a_dataset_of_its_name_is_an_eval_file(project, case_list, name):
    project.write(f"{name}.jsonl", f"{LINE}\n")
    project.write(f"{name}.yaml", case_list)
    assert collected(project.run("--collect-only", "-q")) == [f"{name}.jsonl", f"{name}.yaml"]


def test_a_case_list_is_seen_within_the_first_64_kilobytes(project, case_list):
    project.write("evals/near.yaml", "# filler\n" * 7_000 + case_list)
    project.write("evals/far.yaml", "# filler\n" * 8_000 + case_list)
    assert collected(project.run("--collect-only", "-q")) == ["evals/near.yaml"]


def test_the_root_may_be_the_folder_named_evals(project, case_list, monkeypatch):
    """Without an ini file, the folder in which pytest is started is its root."""
    for name in ("qa.yaml", "named.eval.yaml", "deep/qa.yaml", ".hidden/qa.yaml"):
        project.write(f"evals/{name}", case_list)
    monkeypatch.chdir(project.path / "evals")
    run = project.run("--collect-only", "-q", "-o", "norecursedirs=")
    assert collected(run) == ["deep/qa.yaml", "named.eval.yaml", "qa.yaml"]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that root cannot read either")
def test_a_file_that_cannot_be_read_is_not_passed_over_in_silence(project, case_list, capsys):
    project.write("evals/qa.yaml", case_list)
    (project.path / "evals/broken.yaml").symlink_to("/proc/self/mem")
    (project.path / "other.yaml").symlink_to("/proc/self/mem")
    said = "cannot be read: Input/output error; if it has cases, they are not collected"
    run = project.run()
    assert run.statuses == {"a": "pass"}
    (line,) = [line for line in run.lines if "cannot be read" in line]
    assert line.endswith(f"evals/broken.yaml: {said}")
    assert project.run("--agentv-strict").exit_code == pytest.ExitCode.INTERRUPTED
    assert agentv(["validate", str(project.path / "evals")]) == 0
    assert f"evals/broken.yaml: warning: {said}" in capsys.readouterr().out


def test_files_that_may_hold_cases_but_are_no_yaml_or_json_are_warned_of(project, case_list, capsys):
    project.write("evals/qa.yaml", case_list)
    project.write("evals/open.yaml", "evalcases: [\n")
    project.write("evals/lines.jsonl", '// ours\n{"id": "a", "input": "x"}\n')
    for name in ("evals/wide.yaml", "other.yaml"):
        (project.path / name).write_text(case_list, encoding="utf-16")
    project.write("other.jsonl", "// ours\n")
    run = project.run()
    assert run.statuses == {"a": "pass"}
    said = [line.partition("Warning: ")[2].partition(": cannot be read: ") for line in run.lines if "Warning: " in line]
    assert [(name, reason.partition(":")[0].partition(";")[0]) for name, _, reason in said] == [
        ("evals/lines.jsonl:1", "invalid JSON"),
        ("evals/open.yaml:2", "invalid YAML"),
        ("evals/wide.yaml", "expected UTF-8, got UTF-16"),
    ]
    assert project.run("--agentv-strict").outcomes["errors"] == len(said)
    assert agentv(["validate", "--strict", str(project.path / "evals")]) == 1
    assert "1 file checked: 0 errors, 3 warnings" in capsys.readouterr().out
