"""`agentv init`: what it writes, what it keeps, and that it runs."""

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from pytest_agentv.cli import init
from pytest_agentv.cli.init import EXAMPLES

ROOT = Path(__file__).parents[2]


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
    for name in ("evals/targets.yaml", "pytest.ini"):
        Path(name).write_text("mine\n")
    asked = at_a_terminal(answer)
    run = agentv("init")
    assert asked == ["Overwrite them? [y/N] "]
    assert run.out.startswith("These files already exist:\n  evals/targets.yaml\n")
    body = (ROOT / "examples/first/targets.yaml").read_text("utf-8")
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
    assert "  agentv_workers = 4\n" in run.out
    assert tree()[name] == text
    assert {"pytest.ini", name} & tree().keys() == {name}


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


def test_two_folders_are_one_too_many(agentv):
    run = agentv("init", "here", "--path", "there")
    assert (run.exit_code, run.out) == (2, "")
    assert run.err == "agentv init: DIR is given twice: here and --path=there\nTry: agentv init --help\n"
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_copied_whole_and_is_small(agentv, tree, example):
    agentv("init", f"--example={example}")
    folder, written = ROOT / "examples" / EXAMPLES[example], tree("evals")
    copied = {path for path in folder.rglob("*.*") if path.suffix != ".pyc" and path.name != "README.md"}
    assert written.keys() == {path.relative_to(folder).as_posix() for path in copied}
    for name, text in written.items():
        has_schema = text.startswith("# yaml-language-server: ")
        assert has_schema == name.endswith((".eval.yaml", "targets.yaml"))
        assert (text.partition("\n")[2] if has_schema else text) == (folder / name).read_text("utf-8")
    assert sum(map(len, tree().values())) < 40_000


def test_the_wheel_has_the_examples():
    """In a checkout they lie beside the package."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    shipped = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert shipped == {f"examples/{name}": f"pytest_agentv/examples/{name}" for name in EXAMPLES.values()}
