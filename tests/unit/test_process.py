"""What processes share, and what is left of programs however they or the run end."""

import asyncio
import os
import select
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from thorough import varied

from pytest_agentv.runtime.files import InUse, flocked
from pytest_agentv.runtime.loop import LoopThread
from pytest_agentv.runtime.processes import ProcessResult, run_process
from pytest_agentv.runtime.reaper import kill_marked, temporary_folder, watched
from pytest_agentv.store.answers import connect

ENVIRONMENT = {"PATH": os.environ["PATH"]}
HAS_PROC = Path("/proc/self/stat").exists()
STARTS_DAEMON = (
    "(setsid sh -c 'echo $$ > pid; exec sleep 1000' >/dev/null 2>&1 &); while [ ! -s pid ]; do sleep 0.01; done"
)


def run_shell(
    command: str,
    timeout: float | None = 30,
    stdin: bytes | None = None,
    cwd: str = "/",
    env: dict[str, str] = ENVIRONMENT,
) -> ProcessResult:
    argv = ["/bin/sh", "-c", command]
    return asyncio.run(run_process(argv, cwd=cwd, env=env, stdin=stdin, timeout_seconds=timeout))


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    return bool(_arguments(pid))


def read_pid(path: Path) -> int:
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def test_a_timeout_lets_the_program_clean_up() -> None:
    result = run_shell("trap 'sleep 0.2; echo cleaned; exit 7' TERM; while :; do sleep 0.05; done", timeout=0.3)

    assert result.timed_out
    assert (result.exit_code, result.stdout) == (7, "cleaned\n")


@pytest.mark.skipif(not HAS_PROC, reason="needs /proc")
@pytest.mark.parametrize("ended_by", ["timeout", "cancellation", "flood"])
def test_a_daemon_that_lost_its_parent_ends_with_a_program_that_is_stopped(tmp_path: Path, ended_by: str) -> None:
    """It lived on: it is neither in the group nor below the program."""
    rest = "yes" if ended_by == "flood" else "sleep 1000"

    async def run() -> None:
        argv = ["/bin/sh", "-c", f"{STARTS_DAEMON}; {rest}"]
        call = run_process(argv, cwd=str(tmp_path), env=ENVIRONMENT, timeout_seconds=1 if ended_by == "timeout" else 30)
        task = asyncio.ensure_future(call)
        if ended_by == "cancellation":
            await asyncio.to_thread(read_pid, tmp_path / "pid")
            task.cancel()
        await asyncio.wait([task])

    asyncio.run(run())
    pid = read_pid(tmp_path / "pid")
    wait_until(lambda: not is_running(pid))


@pytest.mark.parametrize("after", [0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.3])
def test_cancelling_ends_the_program_and_its_children_at_any_moment(after: float) -> None:
    mark = f"{os.getpid()}{round(after * 10_000)}"  # the seconds that the child sleeps, to know it by
    argv = ["/bin/sh", "-c", f"sleep {mark} & sleep {mark}; echo"]

    async def scenario() -> float:
        task = asyncio.ensure_future(run_process(argv, cwd="/", env=ENVIRONMENT, timeout_seconds=None))
        await asyncio.sleep(after)
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - started

    assert asyncio.run(scenario()) < 2
    assert not any(mark in _arguments(path.name) for path in Path("/proc").glob("[0-9]*"))


def _arguments(pid: int | str) -> str:
    """Return the words of a process; none of one that is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


KILLED_RUN = textwrap.dedent(
    """
    import asyncio, os, sys
    from pytest_agentv.runtime import reaper
    from pytest_agentv.runtime.processes import run_process
    from pytest_agentv.runtime.reaper import temporary_folder, watched

    folder, command = sys.argv[1:]
    tell = reaper._WATCHER.tell

    def tell_and_note(line):
        tell(line)
        if line.startswith("+PROGRAM"):
            open(os.path.join(folder, "told"), "x").close()

    reaper._WATCHER.tell = tell_and_note

    async def main():
        with temporary_folder("agentv killed-") as temporary:
            with open(os.path.join(folder, "temporary"), "w") as file:
                file.write(f"{temporary}\\n")
            argv = ["/bin/sh", "-c", command]
            await run_process(argv, cwd=folder, env=dict(os.environ), timeout_seconds=None)

    asyncio.run(main())
    """
)


@pytest.mark.parametrize("number", [signal.SIGKILL, varied(signal.SIGTERM)])
@pytest.mark.parametrize(
    "command",
    [
        "echo $$ > pid; exec sleep 1000",
        "sleep 1000 & echo $! > pid; wait",
        pytest.param(
            "setsid sh -c 'trap : TERM; echo $$ > pid; while :; do sleep 0.1; done' & wait",
            marks=pytest.mark.skipif(not HAS_PROC, reason="sessions are found in /proc"),
        ),
    ],
)
def test_nothing_is_left_when_the_run_itself_is_killed(tmp_path: Path, command: str, number: int) -> None:
    runner = subprocess.Popen([sys.executable, "-c", KILLED_RUN, str(tmp_path), command], start_new_session=True)
    try:
        pid = read_pid(tmp_path / "pid")
        wait_until((tmp_path / "told").exists)
        temporary = Path((tmp_path / "temporary").read_text().strip())
        assert temporary.is_dir()
        assert is_running(pid)
    finally:
        os.kill(runner.pid, number)
        runner.wait()

    wait_until(lambda: not is_running(pid) and not temporary.exists())


def start(**environment: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "1000"], env={**ENVIRONMENT, **environment}, start_new_session=True)


@pytest.mark.skipif(not HAS_PROC, reason="marks are found in /proc")
def test_processes_with_a_mark_are_killed_and_no_others() -> None:
    value = uuid.uuid4().hex
    marks = [{"MARK": value}, {"MARK": value, "OTHER": "x"}, {}, {"MARK": f"{value}0"}, {"XMARK": value}]
    children = [start(**mark) for mark in (*marks, {"OTHER": f"MARK={value}"})]
    try:
        wait_until(lambda: all(b"sleep" in Path(f"/proc/{child.pid}/cmdline").read_bytes() for child in children))
        kill_marked(f"MARK={value}")
        assert [child.wait(10) for child in children[:2]] == [-signal.SIGKILL] * 2
        assert [child.poll() for child in children[2:]] == [None] * 4
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_a_temporary_folder_with_folders_that_cannot_be_written_to_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)  # where users other than root may write as well
    with watched(f"DIR {tmp_path / 'none'}"):  # starts the watcher
        outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)  # to root, everything can be written to
    try:
        with temporary_folder("agentv-test-") as folder:
            (folder / "cache" / "package").mkdir(parents=True)
            (folder / "cache" / "package" / "file").touch()
            (folder / "link").symlink_to(outside)
            for path in (folder / "cache" / "package", folder / "cache"):
                path.chmod(0o500)
    finally:
        if is_root:
            os.seteuid(0)
    assert not folder.exists()
    assert outside.stat().st_mode & 0o777 == 0o500


def test_a_file_is_in_use_until_all_who_use_it_have_ended(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.touch()
    first, second = InUse(), InUse()
    first.begin(path)
    second.begin(path)
    first.end()
    assert flocked(path) is None
    second.end()
    descriptor = flocked(path)
    assert descriptor is not None
    assert flocked(path) is None
    os.close(descriptor)


def test_a_forked_process_is_told_that_the_loop_is_not_there() -> None:
    """Threads do not survive a fork: a wait for the loop would never end."""
    thread = LoopThread()
    thread.run(asyncio.sleep(0))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            thread.run(asyncio.sleep(0))
        except RuntimeError as error:
            thread.cancel_all()
            thread.stop()
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    is_told = bool(select.select([reading], [], [], 20)[0])
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        told = pipe.read()

    assert is_told
    assert told == (
        f"this process was forked from process {os.getpid()}, where the cases of the run are evaluated: "
        "evaluate there, or in a process that is started anew (`spawn`)"
    )


OTHER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("insert into run values(hex(randomblob(4)), 'f', 1)")
db.close()
"""


def test_a_second_connection_leaves_the_first_one_its_locks(tmp_path: Path) -> None:
    """Another process took itself for the last one, deleted the log of changes, and the rows after that were lost."""
    path = tmp_path / "answers.sqlite"
    with closing(connect(path)) as writer, closing(connect(path)) as reader:
        writer.execute("insert into run values('ours', 'f', 1)")
        for _ in range(2):
            subprocess.run([sys.executable, "-c", OTHER, path], check=True)
            writer.execute("insert into run values(hex(randomblob(4)), 'f', 1)")
        assert reader.execute("select count(*) from run").fetchone() == (5,)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select count(*) from run").fetchone() == (5,)
