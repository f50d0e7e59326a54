"""What coding agents need of processes: output that is heard as it comes, and an end for what moved away."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_agentv.runtime import reaper
from pytest_agentv.runtime.processes import ProcessResult, run_process
from pytest_agentv.runtime.reaper import kill_marked, marked_processes, read_processes, start_watcher, temporary_folder

ENVIRONMENT = {"PATH": os.environ["PATH"]}
needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="marks are found in /proc")


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    return any(info.pid == pid and info.state != "Z" for info in read_processes())


def start(**environment: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "1000"], env={**ENVIRONMENT, **environment}, start_new_session=True)


def listen(command: str, output_limit: int = 1000) -> tuple[ProcessResult, dict[str, bytes]]:
    heard = {"stdout": b"", "stderr": b""}

    def hear(stream: str, data: bytes) -> None:
        heard[stream] += data

    argv = ["/bin/sh", "-c", command]
    call = run_process(argv, cwd="/", env=ENVIRONMENT, timeout_seconds=30, output_limit=output_limit, listener=hear)
    return asyncio.run(call), heard


def test_a_listener_hears_both_streams_which_are_not_kept() -> None:
    result, heard = listen("echo out; echo err >&2; exit 3")
    assert heard == {"stdout": b"out\n", "stderr": b"err\n"}
    assert (result.exit_code, result.stdout, result.stderr) == (3, "", "")


def test_a_listener_hears_all_without_a_limit() -> None:
    result, heard = listen("head -c 3000000 /dev/zero")
    assert len(heard["stdout"]) == 3_000_000
    assert not result.overflowed


def test_a_listener_hears_what_is_written_while_it_is_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        heard = asyncio.Event()
        argv = ["/bin/sh", "-c", f"echo first; until [ -e {tmp_path}/go ]; do sleep 0.01; done"]

        def hear(_: str, data: bytes) -> None:
            assert data == b"first\n"
            heard.set()

        call = run_process(argv, cwd="/", env=ENVIRONMENT, timeout_seconds=30, listener=hear)
        task = asyncio.ensure_future(call)
        await asyncio.wait_for(heard.wait(), 20)
        (tmp_path / "go").touch()
        assert (await task).exit_code == 0

    asyncio.run(scenario())


@needs_proc
def test_processes_with_a_mark_are_killed_and_no_others() -> None:
    value = uuid.uuid4().hex
    ours = [start(MARK=value), start(MARK=value, OTHER="x")]
    others = [start(), start(MARK=f"{value}0"), start(XMARK=value), start(OTHER=f"MARK={value}")]
    try:
        wait_until(lambda: all(b"sleep" in Path(f"/proc/{child.pid}/cmdline").read_bytes() for child in ours + others))
        kill_marked(f"MARK={value}")
        assert [child.wait(10) for child in ours] == [-signal.SIGKILL] * 2
        assert [child.poll() for child in others] == [None] * 4
    finally:
        for child in ours + others:
            child.kill()
            child.wait()


@needs_proc
def test_what_inherits_the_mark_ends_with_the_block_wherever_it_moved(tmp_path: Path) -> None:
    daemon = f"setsid sh -c 'setsid sh -c \"echo \\$\\$ > {tmp_path}/pid; exec sleep 1000\" & exit 0'"
    with marked_processes() as mark:
        subprocess.run(["/bin/sh", "-c", daemon], env={**ENVIRONMENT, **mark}, check=True)
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
        pid = int((tmp_path / "pid").read_text())
        assert is_running(pid)
    wait_until(lambda: not is_running(pid))


def test_each_block_has_a_mark_of_its_own() -> None:
    with marked_processes() as first, marked_processes() as second:
        assert first.keys() == second.keys()
        assert first != second


def test_without_proc_nothing_is_found_and_nothing_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaper, "read_processes", lambda: iter(()))
    child = start(MARK="1")
    kill_marked("MARK=1")
    assert child.poll() is None
    child.kill()
    child.wait()


def test_a_temporary_folder_with_folders_that_cannot_be_written_to_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)  # where users other than root may write as well
    start_watcher()
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


KILLED_RUN = """
import os, subprocess, sys, time
from pytest_agentv.runtime.reaper import marked_processes, start_watcher, temporary_folder

with marked_processes() as mark:
    subprocess.run(["/bin/sh", "-c", sys.argv[1]], env={**os.environ, **mark}, check=True)
    time.sleep(1000)
"""


@needs_proc
def test_when_the_run_itself_is_killed_what_moved_away_is_killed_as_well(tmp_path: Path) -> None:
    daemon = f"setsid sh -c 'setsid sh -c \"echo \\$\\$ > {tmp_path}/pid; exec sleep 1000\" & exit 0'"
    runner = subprocess.Popen([sys.executable, "-c", textwrap.dedent(KILLED_RUN), daemon], start_new_session=True)
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
    pid = int((tmp_path / "pid").read_text())
    runner.kill()
    runner.wait()
    wait_until(lambda: not is_running(pid))
