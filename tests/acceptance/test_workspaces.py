"""Targets that work in fresh copies of a folder, whatever they do there."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .conftest import Project

HOSTILE = r'''
    import os, pathlib, shutil, subprocess, sys

    task = sys.stdin.read().strip()
    here = pathlib.Path.cwd()
    DAEMON = [sys.executable, "-c", "import sys, time; open(sys.argv[1], 'w').write(str(__import__('os').getpid())); time.sleep(600)"]


    def daemon(name, **environment):
        path = os.environ["PIDS"] + "/" + name
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        subprocess.Popen([*DAEMON, path], **quiet, **environment)
        while not pathlib.Path(path).exists() or not pathlib.Path(path).read_text():
            pass


    if task == "removes its folder":
        os.chdir("/")
        shutil.rmtree(here)
    if task == "replaces its folder by a link":
        os.chdir("/")
        shutil.rmtree(here)
        here.symlink_to(os.environ["OUTSIDE"])
    if task == "leaves a daemon":
        daemon("daemon")
    if task == "leaves a daemon with no variables":
        daemon("bare", env={})
    if task == "writes many files":
        for number in range(3_000):
            pathlib.Path(f"f{number}").write_text("x")
    if task == "writes a huge file":
        with open("big.bin", "wb") as file:
            file.truncate(1 << 30)
    if task == "writes a long text":
        pathlib.Path("big.txt").write_text("line\n" * 1_000_000)
    if task == "makes a repository":
        os.makedirs("inner/.git")
        pathlib.Path("inner/.git/HEAD").write_text("ref: refs/heads/main\n")
        pathlib.Path("inner/a.py").write_text("x = 1\n")
    if task == "links out":
        pathlib.Path("loop").symlink_to(".")
        pathlib.Path("README.md").symlink_to(os.environ["OUTSIDE"] + "/secret.txt")
    if task == "locks a folder":
        os.mkdir("locked")
        pathlib.Path("locked/x").write_text("1")
        os.chmod("locked", 0)
    if task == "ignores its files":
        pathlib.Path(".gitignore").write_text("*\n")
        pathlib.Path(".gitattributes").write_text("* diff=evil\n")
        pathlib.Path("sneaky.py").write_text("x\n")
    if task == "ends the tests":
        pathlib.Path("conftest.py").write_text("import os\nos._exit(0)\n")
    if task == "puts links where hidden tests go":
        pathlib.Path("hidden.txt").symlink_to(os.environ["OUTSIDE"] + "/secret.txt")
        pathlib.Path("deep").symlink_to(os.environ["OUTSIDE"])
    if task == "sets the time back":
        before = os.stat("notes.txt")
        pathlib.Path("notes.txt").write_text("note2\n")
        os.utime("notes.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    print("done")
'''

CASES = """
    workspace: {from: ../fixture, hidden: hidden, keep: never}
    assert: [{contains: done}]
    cases:
      - {id: removes, input: removes its folder, assert: [{contains: "-note1", file: diff}]}
      - {id: replaces, input: replaces its folder by a link, assert: [{contains: "-note1", file: diff}]}
      - {id: daemon, input: leaves a daemon}
      - {id: bare, input: leaves a daemon with no variables}
      - {id: many, input: writes many files, assert: [{contains: "b/f2999", file: diff}, {contains: '"f2999"', file: changed}]}
      - {id: huge, input: writes a huge file, assert: [{contains: 1073741824 bytes, file: diff}]}
      - {id: long, input: writes a long text, assert: [{contains: 5000000 bytes, file: diff}]}
      - {id: repository, input: makes a repository, assert: [{contains: "+x = 1", file: diff}]}
      - {id: links, input: links out, assert: [{contains: outside, file: README.md}]}
      - {id: locks, input: locks a folder, assert: [{contains: locked/x, file: changed}]}
      - {id: ignores, input: ignores its files, assert: [{contains: sneaky.py, file: changed}]}
      - id: ends
        input: ends the tests
        assert:
          - {command: "python -m pytest -q -p no:cacheprovider test_fails.py"}
          - {command: "python -m pytest -q --noconftest -c /dev/null --rootdir . -p no:cacheprovider test_fails.py"}
      - {id: hidden, input: puts links where hidden tests go, assert: [{command: "grep -q hidden hidden.txt deep/er.txt"}]}
      - {id: time, input: sets the time back, assert: [{contains: "+note2", file: diff}]}
"""


@pytest.fixture
def shop(project: Project) -> Project:
    """A project whose cases work in copies of the folder `fixture`."""
    project.write("fixture/notes.txt", "note1\n")
    project.write("fixture/test_fails.py", "def test_it():\n    assert False\n")
    project.write("evals/hidden/hidden.txt", "hidden\n")
    project.write("evals/hidden/deep/er.txt", "hidden\n")
    project.write("evals/agent.py", HOSTILE)
    command = f"{sys.executable} -S $AGENTV_EVAL_DIR/agent.py"
    project.write("evals/targets.yaml", f"targets: [{{name: default, provider: cli, command_template: '{command}', stdin: '{{PROMPT}}'}}]\n")
    return project


def hash_of(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(f"{path} {path.lstat().st_mtime_ns}".encode())
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_hostile_agents_end_as_they_should(shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("temp", "pids", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside/secret.txt").write_text("outside\n")
    for name, folder in (("TMPDIR", "temp"), ("PIDS", "pids"), ("OUTSIDE", "outside")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    shop.write("evals/hostile.eval.yaml", CASES)
    before = hash_of(shop.path / "fixture")
    run = shop.run("evals", "--agentv-workers=4", subprocess=True)
    assert run.outcomes == {"passed": 12, "failed": 2}, run.text
    assert run.statuses["links"] == "fail"
    assert "README.md is outside the workspace" in run.text
    first, second, _ = run.by_id["ends"]["evaluator_results"]
    assert (first["score"], second["score"]) == (1, 0)  # the first command is fooled: the docs have the second one
    pids = {path.name: int(path.read_text()) for path in (tmp_path / "pids").iterdir()}
    assert {name: is_running(pid) for name, pid in pids.items()} == {"daemon": False, "bare": False}
    assert (tmp_path / "outside/secret.txt").read_text() == "outside\n"
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["secret.txt"]
    assert [path.name for path in (tmp_path / "temp").iterdir() if "stores" not in path.name] == []
    assert hash_of(shop.path / "fixture") == before
    changes = run.by_id["many"]["file_changes"]
    assert len(changes) <= 200_000
    assert changes.endswith("… the rest of the diff is left out …\n")
    assert len(run.by_id["many"]["workspace"]["changed"]) == 500


def test_each_of_a_hundred_answers_has_a_fresh_copy(shop: Project) -> None:
    shop.write("setup.log", "")
    shop.write(
        "evals/copies.eval.yaml",
        f"""
        workspace: {{from: ../fixture, setup: echo once >> {shop.path}/setup.log, before: echo before > before.txt}}
        repeat: 20
        assert: [{{equals: [notes.txt], file: changed}}, {{equals: "note1\\nmore\\n", file: notes.txt}}]
        cases: [{", ".join(f"{{id: c{number}, input: x}}" for number in range(5))}]
        """,
    )
    shop.write("evals/targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:work}]\n")
    shop.write(
        "evals/agent.py",
        """
        from pathlib import Path


        def work(prompt, request):
            path = Path(request.workspace, "notes.txt")
            with path.open("a") as notes:
                notes.write("more\\n")
            return ""
        """,
    )
    before = hash_of(shop.path / "fixture")
    run = shop.run("evals", "--agentv-workers=4", "--agentv-stop=never")
    assert run.exit_code == 0, run.text
    assert [result["repeat"]["passes"] for result in run.results] == [20] * 5
    assert hash_of(shop.path / "fixture") == before
    assert (shop.path / "setup.log").read_text() == "once\n"
