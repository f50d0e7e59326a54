"""`agentv init`: what it writes, what it keeps, and that it runs."""

import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_agentv.cli import init
from pytest_agentv.cli.init import PROJECT_FILES

FILES = (
    *PROJECT_FILES,
    ".github/workflows/evals.yml",
)


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
    assert [name for name in seen if name != "??"] == [".agentv/.gitignore"]


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
    body = PROJECT_FILES["evals/targets.yaml"].partition("\n")[2]
    assert tree()["evals/targets.yaml"].partition("\n")[2] == (body if text is None else "")


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


@pytest.mark.parametrize("is_within", [True, False])
def test_the_files_name_the_schemas_of_the_package(agentv, tree, tmp_path, monkeypatch, is_within):
    """Relative where the package lies in the project, so that the line works for everybody with the same folders."""
    package = tmp_path / ("shop/.venv/site-packages" if is_within else "my packages") / "eval.schema.json"
    monkeypatch.setattr(init, "schema_path", lambda kind: package.with_name(f"{kind}.schema.json"))
    agentv("init", "shop")
    written = tree("shop")
    where = "../.venv/site-packages/" if is_within else f"{package.parent.as_uri()}/"
    for name, kind in (("evals/example.eval.yaml", "eval"), ("evals/targets.yaml", "targets")):
        assert written[name].startswith(f"# yaml-language-server: $schema={where}{kind}.schema.json\n")
    assert sum(map(len, written.values())) < 40_000


def test_two_folders_are_one_too_many(agentv):
    run = agentv("init", "here", "--path", "there")
    assert (run.exit_code, run.out) == (2, "")
    assert run.err == "agentv init: DIR is given twice: here and --path=there\nTry: agentv init --help\n"
    assert list(Path().iterdir()) == []
