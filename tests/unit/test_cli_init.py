"""`agentv init`: what it writes, what it keeps, and that it runs."""

import functools
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_agentv.cli import schema
from pytest_agentv.cli.init import PROJECT_FILES, PYTEST_INI

FILES = (
    *PROJECT_FILES,
    ".github/workflows/evals.yml",
    *(f".agentv/schemas/{kind}.schema.json" for kind in ("eval", "targets", "config")),
)

made_once = functools.cache(schema.schema_text)


@pytest.fixture(autouse=True)
def schemas_made_once(monkeypatch):
    monkeypatch.setattr(schema, "schema_text", made_once)


@pytest.fixture
def tree():
    """Return what a folder holds: the text of each file."""

    def read(folder="."):
        files = (path for path in Path(folder).rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in files}

    return read


@pytest.fixture
def at_a_terminal(monkeypatch):
    """Answer the question that is asked at a terminal."""

    def answer(text):
        def reply(question):
            asked.append(question)
            if text is None:
                raise EOFError
            return text

        monkeypatch.setattr("sys.stdin.isatty", lambda: True)
        monkeypatch.setattr("builtins.input", reply)
        return asked

    asked = []
    return answer


def test_an_empty_folder_becomes_a_project(agentv, tree, golden):
    run = agentv("init")
    assert (run.exit_code, run.out, run.err) == (0, golden("cli/init.txt"), "")
    assert set(tree()) == {*FILES, "pytest.ini"}


@pytest.mark.parametrize("folder", [("--path", "new project"), ("new project",)])
def test_what_init_writes_has_no_fault(agentv, folder):
    assert agentv("init", *folder).out.splitlines()[-1] == "Run it: pytest 'new project/evals'"
    run = agentv("validate", "--strict", "new project")
    assert (run.exit_code, run.out) == (0, "2 files checked: nothing wrong\n")


@pytest.mark.skipif(shutil.which("git") is None, reason="asks git")
def test_what_runs_leave_is_kept_out_of_version_control(agentv, tmp_path):
    agentv("init")
    left = [
        "results/eval_1.jsonl",
        "answers.sqlite-wal",
        "results/.eval_1.jsonl.lock",
        "cache/a.json",
        "traces/a.json",
        "prompts/a.json",
    ]
    for name in left:
        path = tmp_path / ".agentv" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    subprocess.run(["git", "init", "-q"], check=True)
    command = ["git", "status", "--porcelain", "--untracked-files=all", ".agentv"]
    seen = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert [name for name in seen if name != "??"] == [
        ".agentv/.gitignore",
        *(f".agentv/schemas/{kind}.schema.json" for kind in ("config", "eval", "targets")),
    ]


def test_files_that_are_there_are_kept_when_nobody_can_be_asked(agentv, tree, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    Path("evals").mkdir()
    Path("evals/targets.yaml").write_text("mine\n")
    run = agentv("init")
    assert run.exit_code == 0
    assert "  kept   evals/targets.yaml\n" in run.out
    assert "Existing files were kept; --force overwrites them.\n" in run.out
    assert tree()["evals/targets.yaml"] == "mine\n"
    assert set(tree()) == {*FILES, "pytest.ini"}


@pytest.mark.parametrize(
    ("answer", "text"), [("n", "mine\n"), ("", "mine\n"), (None, "mine\n"), ("y", None), ("Yes ", None)]
)
def test_at_a_terminal_the_user_is_asked_once_for_all(agentv, tree, at_a_terminal, answer, text):
    Path("evals").mkdir()
    for name in ("evals/targets.yaml", ".env.example"):
        Path(name).write_text("mine\n")
    asked = at_a_terminal(answer)
    run = agentv("init")
    assert asked == ["Overwrite them? [y/N] "]
    assert run.out.startswith("These files already exist:\n  evals/targets.yaml\n  .env.example\n")
    assert tree()["evals/targets.yaml"] == (text or PROJECT_FILES["evals/targets.yaml"])


def test_with_force_nobody_is_asked(agentv, tree, at_a_terminal):
    asked = at_a_terminal("n")
    Path(".env.example").write_text("mine\n")
    assert agentv("init", "--force").exit_code == 0
    assert asked == []
    assert tree()[".env.example"] == PROJECT_FILES[".env.example"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[project]\nname = 'x'\n[tool.pytest.ini_options]\n"),
        ("pyproject.toml", "[tool.pytest]\n"),
        ("tox.ini", "[pytest]\n"),
        ("setup.cfg", "[tool:pytest]\n"),
        ("pytest.ini", "[pytest]\naddopts = -x\n"),
        ("pytest.toml", ""),
    ],
)
def test_settings_are_shown_and_not_written_where_pytest_has_a_file_of_its_own(agentv, tree, name, text):
    Path(name).write_text(text)
    run = agentv("init")
    assert f"Settings that you may want to add to {name}:\n" in run.out
    assert "  agentv_threshold = 0.8\n" in run.out
    assert tree()[name] == text
    assert len(tree()) == len(FILES) + 1


def test_a_file_without_settings_of_pytest_does_not_count(agentv, tree):
    Path("pyproject.toml").write_text("[project]\nname = 'x'\n")
    agentv("init")
    assert tree()["pytest.ini"] == PYTEST_INI
    assert agentv("init").exit_code == 0


def test_two_folders_are_one_too_many(agentv):
    """One of them was left without its project, without a word."""
    run = agentv("init", "here", "--path", "there")
    assert (run.exit_code, run.out) == (2, "")
    assert run.err == "agentv init: DIR is given twice: here and --path=there\nTry: agentv init --help\n"
    assert list(Path().iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told(agentv):
    Path("file").write_text("x")
    run = agentv("init", "--path", "file")
    assert run.exit_code == 2
    assert re.fullmatch(r"agentv init: file/.*: cannot be written: .*\n", run.err)
