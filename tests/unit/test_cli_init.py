"""`agentv init`: what it writes, what it keeps, and that it runs."""

import shutil
import subprocess
import tomllib
from pathlib import Path
from unittest.mock import Mock

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tree():
    """Return what a folder holds: the text of each file."""

    def read(folder="."):
        files = (path for path in Path(folder).rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in files}

    return read


@pytest.mark.skipif(shutil.which("git") is None, reason="asks git")
def test_what_runs_leave_is_kept_out_of_version_control(agentv, tmp_path):
    agentv("init")
    left = [
        "results/eval_1.jsonl",
        "answers.sqlite-wal",
        "results/.eval_1.jsonl.lock",
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


@pytest.mark.parametrize(("answer", "is_kept"), [("n", True), ("", True), (EOFError(), True), ("Yes ", False)])
def test_at_a_terminal_the_user_is_asked_once_for_all(agentv, tree, monkeypatch, answer, is_kept):
    Path("evals").mkdir()
    for name in ("evals/targets.yaml", "pytest.ini"):
        Path(name).write_text("mine\n")
    asked = Mock(side_effect=[answer])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", asked)
    assert agentv("init").out.startswith("These files already exist:\n  evals/targets.yaml\n")
    asked.assert_called_once_with("Overwrite them? [y/N] ")
    assert (tree()["evals/targets.yaml"] == "mine\n") == is_kept


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
    assert "  agentv_workers = 4\n" in run.out
    assert tree()[name] == text
    assert {"pytest.ini", name} & tree().keys() == {name}


@pytest.mark.parametrize("is_within", [True, False])
def test_the_files_name_the_schemas_of_the_package(agentv, tree, tmp_path, monkeypatch, is_within):
    """Relative where the package lies in the project, so that the line works for everybody with the same folders."""
    package = tmp_path / ("shop/.venv/site-packages" if is_within else "my packages") / "eval.schema.json"
    monkeypatch.setattr("pytest_agentv.cli.init.schema_path", lambda kind: package.with_name(f"{kind}.schema.json"))
    agentv("init", "shop")
    written = tree("shop")
    where = "../.venv/site-packages/" if is_within else f"{package.parent.as_uri()}/"
    for name, kind in (("evals/example.eval.yaml", "eval"), ("evals/targets.yaml", "targets")):
        assert written[name].startswith(f"# yaml-language-server: $schema={where}{kind}.schema.json\n")


def test_two_folders_are_one_too_many(agentv):
    run = agentv("init", "here", "--path", "there")
    assert (run.exit_code, run.out) == (2, "")
    assert run.err == "agentv init: DIR is given twice: here and --path=there\nTry: agentv init --help\n"
    assert list(Path().iterdir()) == []


def test_the_wheel_has_the_examples(agentv, tree):
    """In a checkout they lie beside the package. What `--example` copies is small."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    shipped = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    examples = {"first": "first", "rag": "rag_files", "agent": "two_variants", "service": "web_service"}
    examples["prompts"] = "two_prompts"
    assert shipped == {f"examples/{name}": f"pytest_agentv/examples/{name}" for name in examples.values()}
    for example, name in examples.items():
        assert agentv("init", example, f"--example={example}").exit_code == 0
        copied = {path for path in (ROOT / "examples" / name).rglob("*.*") if path.suffix != ".pyc"}
        names = {f"evals/{path.relative_to(ROOT / 'examples' / name).as_posix()}" for path in copied}
        assert names - {"evals/README.md"} <= tree(example).keys()
        assert sum(map(len, tree(example).values())) < 40_000
