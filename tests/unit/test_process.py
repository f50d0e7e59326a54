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
from thorough import varied

from pytest_agentv.runtime import processes
from pytest_agentv.runtime.processes import ProcessResult, ProcessStartError, run_process
from pytest_agentv.runtime.reaper import kill_marked, read_processes, temporary_folder, watched
from pytest_agentv.runtime.user_code import run_in_thread

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
    return any(info.pid == pid and info.state != "Z" for info in read_processes())


def read_pid(path: Path) -> int:
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def test_output_is_decoded_with_replacement_characters_and_plain_line_ends() -> None:
    assert run_shell(r"printf 'a\377b\r\nc\rd'").stdout == "a\ufffdb\nc\rd"


def test_a_flood_of_output_is_cut_and_its_program_killed() -> None:
    result = run_shell("yes & exec yes")

    assert result.overflowed
    assert len(result.stdout) == processes.OUTPUT_LIMIT
    assert result.exit_code != 0


def test_a_timeout_lets_the_program_clean_up() -> None:
    result = run_shell("trap 'sleep 0.2; echo cleaned; exit 7' TERM; while :; do sleep 0.05; done", timeout=0.3)

    assert result.timed_out
    assert (result.exit_code, result.stdout) == (7, "cleaned\n")


def test_a_program_that_ignores_the_polite_signal_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_TERM_SECONDS", 0.2)

    result = run_shell("trap '' TERM; while :; do sleep 0.05; done", timeout=0.3)

    assert result.timed_out
    assert result.exit_code == -signal.SIGKILL


@pytest.mark.skipif(not HAS_PROC, reason="sessions are found in /proc")
def test_a_timeout_ends_descendants_in_sessions_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_TERM_SECONDS", 0.2)
    pid_file = tmp_path / "pid"
    inner = f"sh -c 'trap : TERM; echo $$ > {pid_file}; while :; do sleep 0.1; done'"

    result = run_shell(f"setsid {inner} & wait", timeout=0.5)

    assert result.timed_out
    assert not is_running(read_pid(pid_file))


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
    assert not any(mark in _arguments(info.pid) for info in read_processes() if info.state != "Z")


def _arguments(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_second_cancellation_kills_at_once(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    argv = ["/bin/sh", "-c", f"trap '' TERM; echo x > {ready}; while :; do sleep 0.05; done"]

    async def scenario() -> float:
        task = asyncio.ensure_future(run_process(argv, cwd="/", env=ENVIRONMENT, timeout_seconds=None))
        await asyncio.to_thread(wait_until, ready.exists)
        started = time.monotonic()
        task.cancel()
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - started

    assert asyncio.run(scenario()) < 0.9


def start_error(argv: list[str], cwd: str = "/") -> str:
    with pytest.raises(ProcessStartError) as caught:
        asyncio.run(run_process(argv, cwd=cwd, env=ENVIRONMENT, timeout_seconds=1))
    return str(caught.value)


def test_an_argument_that_is_too_long_is_a_start_error_that_names_the_limit() -> None:
    assert start_error(["echo", "x" * 3_000_000]) == (
        "cannot run 'echo': its arguments are too long (3000006 bytes); the system takes 128 KiB for each argument "
        "and about 2 MiB for all of them and the environment: pass long texts in a file or on standard input"
    )


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
        if line.startswith("+GROUP"):
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


def test_a_forked_child_that_outlives_the_run_does_not_keep_the_watcher_from_its_work(tmp_path: Path) -> None:
    program = KILLED_RUN.replace("asyncio.run(main())", "").rstrip() + textwrap.dedent(
        """
        import threading, time
        threading.Thread(target=lambda: asyncio.run(main())).start()
        while not os.path.exists(os.path.join(folder, "told")):
            time.sleep(0.01)
        forked = os.fork()
        if forked == 0:
            time.sleep(1000)
        with open(os.path.join(folder, "forked"), "w") as file:
            file.write(f"{forked}\\n")
        """
    )
    command = "echo $$ > pid; exec sleep 1000"
    runner = subprocess.Popen([sys.executable, "-c", program, str(tmp_path), command], start_new_session=True)
    forked = read_pid(tmp_path / "forked")
    pid = read_pid(tmp_path / "pid")
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()

    try:
        wait_until(lambda: not is_running(pid))
    finally:
        os.kill(forked, signal.SIGKILL)


def test_the_watcher_ends_with_a_run_that_ends_well() -> None:
    program = (
        "import asyncio, logging, os\n"
        "logging.getLogger('asyncio').setLevel('ERROR')  # it warns of steps that take long on a busy machine\n"
        "from pytest_agentv.runtime import reaper\n"
        "from pytest_agentv.runtime.processes import run_process\n"
        "asyncio.run(run_process(['true'], cwd='/', env=dict(os.environ), timeout_seconds=9))\n"
        "print(reaper._WATCHER._process.pid)\n"
    )

    result = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )

    assert result.stderr == ""
    assert not is_running(int(result.stdout))


def test_a_thread_that_raises_stop_iteration_does_not_hang_the_caller() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(run_in_thread(lambda: next(iter(())), "mine"))


def start(**environment: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "1000"], env={**ENVIRONMENT, **environment}, start_new_session=True)


@pytest.mark.skipif(not HAS_PROC, reason="marks are found in /proc")
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
