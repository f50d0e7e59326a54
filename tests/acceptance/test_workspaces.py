"""Targets that work in fresh copies of a folder, whatever they do there."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Project

HOSTILE = r"""
    import os, pathlib, shutil, subprocess, sys

    task = sys.stdin.read().strip()
    here = pathlib.Path.cwd()
    WAIT = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"


    def daemon(name, **environment):
        path = os.environ["PIDS"] + "/" + name
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        subprocess.Popen([sys.executable, "-c", WAIT, path], **quiet, **environment)
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
"""

CASES = """
    workspace: {from: ../fixture, hidden: hidden, keep: never}
    assert: [{contains: done}]
    cases:
      - {id: removes, input: removes its folder, assert: [{contains: "-note1", file: diff}]}
      - {id: replaces, input: replaces its folder by a link, assert: [{contains: "-note1", file: diff}]}
      - {id: daemon, input: leaves a daemon}
      - {id: bare, input: leaves a daemon with no variables}
      - {id: many, input: writes many files, assert: [{contains: b/f99, file: diff}, {contains: f2999, file: changed}]}
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
      - id: hidden
        input: puts links where hidden tests go
        assert: [{command: grep -q hidden hidden.txt deep/er.txt}]
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
    project.write(
        "evals/targets.yaml",
        f"targets: [{{name: default, provider: cli, command_template: '{command}', stdin: '{{PROMPT}}'}}]\n",
    )
    return project


def hash_of(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(f"{path} {path.lstat().st_mtime_ns}".encode())
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


def left_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if "stores" not in path.name]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.kills
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
    assert left_in(tmp_path / "temp") == []
    assert hash_of(shop.path / "fixture") == before
    changes = run.by_id["many"]["file_changes"]
    assert len(changes) <= 200_000
    assert changes.endswith("… the rest of the diff is left out …\n")
    assert len(run.by_id["many"]["workspace"]["changed"]) == 500


@pytest.mark.slow
def test_each_of_a_hundred_answers_has_a_fresh_copy(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temp"))
    shop.write("setup.log", "")
    shop.write(
        "evals/copies.eval.yaml",
        f"""
        workspace: {{from: ../fixture, setup: echo once >> {shop.path}/setup.log}}
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
    run = shop.run("evals", "-n", "2", "--agentv-workers=4", "--agentv-stop=never", subprocess=True)
    assert run.exit_code == 0, run.text
    assert [result["repeat"]["passes"] for result in run.results] == [20] * 5
    assert hash_of(shop.path / "fixture") == before
    assert (shop.path / "setup.log").read_text() == "once\n"
    assert left_in(tmp_path / "temp") == []


@pytest.mark.kills
def test_a_killed_run_leaves_no_folder_and_no_process(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temp").mkdir()
    shop.write("evals/a.eval.yaml", "workspace: ../fixture\ncases: [{id: a, input: x, assert: [{contains: x}]}]\n")
    command = f"echo $$ > {tmp_path}/pid.part && mv {tmp_path}/pid.part {tmp_path}/pid && exec sleep 600"
    shop.write("evals/targets.yaml", f"targets: [{{name: default, provider: cli, command_template: '{command}'}}]\n")
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "evals", "-p", "no:cacheprovider"],
        cwd=shop.path,
        env={**os.environ, "TMPDIR": str(tmp_path / "temp")},
        stdout=subprocess.DEVNULL,
    )
    wait_until((tmp_path / "pid").exists)
    assert any(name.startswith("agentv-workspace-") for name in left_in(tmp_path / "temp"))
    run.send_signal(signal.SIGKILL)
    run.wait()
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_running(pid) and not left_in(tmp_path / "temp"))


def test_a_failed_copy_is_kept_and_the_record_says_where(shop: Project) -> None:
    shop.write(
        "evals/a.eval.yaml",
        """
        workspace: ../fixture
        cases:
          - {id: passes, input: x, assert: [{contains: hello}]}
          - {id: fails, input: x, assert: [{contains: bye}]}
        """,
    )
    shop.write("evals/targets.yaml", 'targets: [{name: default, provider: cli, command_template: "echo hello"}]\n')
    run = shop.run("evals")
    kept = Path(run.by_id["fails"]["workspace"]["kept"])
    assert (kept / "notes.txt").read_text() == "note1\n"
    assert f"Kept:   {kept}" in run.text
    assert "kept" not in run.by_id["passes"]["workspace"]
    shutil.rmtree(kept.parent)


def test_a_commit_of_a_repository_is_checked_out(shop: Project) -> None:
    git = ["git", "-C", str(shop.path / "fixture"), "-c", "user.name=a", "-c", "user.email=a@localhost"]
    for words in (["init", "-q"], ["add", "notes.txt"], ["commit", "-qm", "one"], ["tag", "v1"]):
        subprocess.run([*git, *words], check=True)
    shop.write("fixture/notes.txt", "note2\n")
    shop.write(
        "evals/a.eval.yaml",
        """
        workspace: {from: ../fixture, ref: v1}
        assert: [{equals: "note1\\n", file: notes.txt}]
        cases: [{id: known, input: x}, {id: unknown, input: x, workspace: {ref: v2}}]
        """,
    )
    shop.write("evals/targets.yaml", 'targets: [{name: default, provider: cli, command_template: "git log -1"}]\n')
    run = shop.run("evals")
    assert run.statuses == {"known": "pass", "unknown": "error"}
    assert "workspace: ref 'v2' of" in run.text


BWRAP = r"""#!/bin/sh
echo "$*" >> "$CALLS"
while [ $# -gt 0 ]; do
    case "$1" in
        --ro-bind|--bind) shift 3 ;;
        --dev|--proc|--tmpfs) shift 2 ;;
        --chdir) cd "$2"; shift 2 ;;
        --*) shift ;;
        *) break ;;
    esac
done
exec "$@"
"""


def test_targets_and_commands_run_in_the_sandbox(
    shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.write(
        "evals/a.eval.yaml",
        """
        workspace: {from: ../fixture, sandbox: bwrap, hidden: hidden}
        cases: [{id: a, input: x, assert: [{command: exit 0}]}]
        """,
    )
    shop.write("evals/targets.yaml", 'targets: [{name: default, provider: cli, command_template: "echo hello"}]\n')
    program = tmp_path / "bin/bwrap"
    program.parent.mkdir()
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("PATH", str(program.parent))
    run = shop.run("evals")
    assert "workspace.sandbox: bwrap (of bubblewrap) does not work here: cannot run 'bwrap': No such file" in run.text
    program.write_text(BWRAP)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    run = shop.run("evals")
    assert run.exit_code == 0, run.text
    probe, target, command = (tmp_path / "calls").read_text().splitlines()
    assert probe.endswith("true")
    assert f"--tmpfs {shop.path}/evals " in target
    assert "--unshare-net" not in target
    assert "--unshare-net" in command
    assert command.endswith("sh -c exit 0")
    program.write_text("#!/bin/sh\necho no user namespaces >&2\nexit 1\n")
    run = shop.run("evals")
    assert "workspace.sandbox: bwrap (of bubblewrap) does not work here: no user namespaces" in run.text
