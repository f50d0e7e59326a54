"""Ends processes with all their descendants, and temporary folders, even if this process is killed with SIGKILL.

The first use starts a small watcher process that holds the other end of a pipe. This process writes every running
program, temporary folder and environment mark to the pipe (`+PROGRAM 123 NAME=value`, `-PROGRAM 123 NAME=value`,
`+DIR /tmp/x`, `+MARK NAME=value`). The pipe closes when this process ends. The watcher then ends those programs, kills
the marked processes and removes those folders.

It runs without site-packages, so this module uses the standard library only.
"""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

with suppress(ImportError):
    import fcntl  # missing on Windows

_GRACE_SECONDS: Final = 2.0
"""Nobody waits for the watcher, but a new run may need the port or lock of the old processes."""

_PACKAGE_ROOT: Final = Path(__file__).parents[2]
_PROGRAM: Final = (
    "import sys; sys.path.append(sys.argv[1]); from pytest_agentv.runtime.reaper import watch; watch(sys.stdin.buffer)"
)


@contextmanager
def watched(entry: str) -> Iterator[None]:
    """Within the block, have the watcher clean up if this process dies.

    `entry` is `PROGRAM` with a process and its variable `NAME=value` to end it, `MARK` with a variable whose processes
    are killed, or `DIR` with a folder to remove.
    """
    _WATCHER.tell(f"+{entry}")
    try:
        yield
    finally:
        _WATCHER.tell(f"-{entry}")


@contextmanager
def temporary_folder(prefix: str, *, keep: bool = False) -> Iterator[Path]:
    """Create a folder that only this user can read. It is removed afterwards, even if this process is killed."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if keep:
        yield folder
        return
    with watched(f"DIR {folder}"):
        try:
            yield folder
        finally:
            _remove(folder)


def remove_at_end(folder: Path) -> None:
    """Have the watcher remove a folder when this process ends, even by SIGKILL."""
    _WATCHER.tell(f"+DIR {folder}")


def remove_with_last(folder: Path) -> None:
    """Have the watcher remove a folder at the end, unless another process holds a lock on `in-use` in there."""
    _WATCHER.tell(f"+SHARED {folder}")


def keep_folder(folder: Path) -> None:
    """Let a folder of `remove_at_end` stay."""
    _WATCHER.tell(f"-DIR {folder}")


def remove_folder(folder: Path) -> None:
    """Remove a folder of `remove_at_end` now."""
    _remove(folder)
    keep_folder(folder)


class _Watcher:
    """The watcher process of this process. Runs continue without it if it cannot start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def tell(self, line: str) -> None:
        """Write a line to the watcher, which the first one starts."""
        with self._lock, suppress(OSError):
            if self._process is None:
                # in its own session, which Ctrl-C does not reach, and without site-packages, to start fast
                self._process = subprocess.Popen(  # noqa: S603 - our own program
                    [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_PACKAGE_ROOT)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    cwd="/",
                )
                atexit.register(self.close)
            if self._process.stdin is not None:
                os.write(self._process.stdin.fileno(), os.fsencode(line) + b"\n")

    def close(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.communicate()

    def forget(self) -> None:
        """Drop the watcher in a forked child: it is the parent's, and its pipe must close when the parent ends."""
        self._lock = threading.Lock()
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.returncode = 0  # the parent waits for it, so no ResourceWarning here
            process.stdin.close()


_WATCHER: Final = _Watcher()
if hasattr(os, "register_at_fork"):  # missing on Windows, where commands import this module but start no programs
    os.register_at_fork(after_in_child=_WATCHER.forget)


def watch(lines: Iterable[bytes]) -> None:
    """Run as the watcher: note registrations until the pipe closes, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a signal to all processes of the run must not stop the clean-up
    entries: set[bytes] = set()
    for line in lines:
        change = entries.add if line.startswith(b"+") else entries.discard
        change(line[1:].rstrip(b"\n"))
    found = [os.fsdecode(entry).partition(" ")[::2] for entry in entries]
    programs = [value.partition(" ") for kind, value in found if kind == "PROGRAM"]
    _end([Program(int(leader), mark) for leader, _, mark in programs])
    actions: dict[str, Callable[[str], None]] = {
        "MARK": kill_marked,
        "DIR": lambda folder: _remove(Path(folder)),
        "SHARED": lambda folder: remove_unused(Path(folder), _GRACE_SECONDS),
    }
    for kind, action in actions.items():
        for each, value in found:
            if each == kind:
                action(value)


def _end(programs: "Sequence[Program]") -> None:
    for program in programs:
        program.send(signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_SECONDS
    while time.monotonic() < deadline and any(program.is_running() for program in programs):
        time.sleep(_POLL_SECONDS)
    for program in programs:
        program.send(signal.SIGKILL)


def remove_unused(folder: Path, seconds: float = 0) -> None:
    """Remove a folder of `remove_with_last` if no process uses it. One that ends may hold its lock a moment longer."""
    deadline = time.monotonic() + seconds
    while folder.exists():
        with suppress(OSError), (folder / "in-use").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
        if time.monotonic() > deadline:
            return
        time.sleep(_POLL_SECONDS)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        return
    # Programs leave write-protected folders, such as package caches.
    for parent, names, _ in os.walk(folder):
        for name in names:
            with suppress(OSError):
                if not (path := Path(parent, name)).is_symlink():
                    path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


# A program and all that it started. Agents run their tools in other sessions, which a signal to the agent's group does
# not reach. They are found by a variable that they inherit, in /proc, if there is one.

_POLL_SECONDS: Final = 0.02
_ROUNDS: Final = 5


class Program:
    """A program that leads its own session, and all processes with its variable `mark`, which is `NAME=value`."""

    def __init__(self, leader: int, mark: str) -> None:
        self._leader = leader
        self._mark = mark

    def send(self, signal_number: int) -> None:
        """Signal every group of the processes, each once: a second signal often means something else."""
        groups = {self._leader}
        for pid in _marked(self._mark):
            with suppress(ProcessLookupError):
                groups.add(os.getpgid(pid))
        for group in groups:
            send_group(group, signal_number)

    def is_running(self) -> bool:
        try:
            os.kill(self._leader, 0)
        except (ProcessLookupError, PermissionError):
            return bool(_marked(self._mark))
        return True


def kill_marked(variable: str) -> None:
    """Kill all processes that have a variable `NAME=value`, wherever they went. Without /proc it finds none."""
    for _ in range(_ROUNDS):  # a process may start another one before it dies
        found = _marked(variable)
        if not found:
            return
        for pid in found:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def send_group(group: int, signal_number: int) -> None:
    """Signal a process group. Ignores a group that is gone or belongs to another user."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal_number)


def _marked(variable: str) -> list[int]:
    found, entry = [], os.fsencode(variable)
    with suppress(FileNotFoundError), os.scandir("/proc") as folders:  # faster than `Path`, for runs with many programs
        for folder in folders:
            if folder.name.isdecimal():
                with suppress(OSError):  # it is gone, or belongs to another user; the environment of a zombie is empty
                    if entry in Path(folder.path, "environ").read_bytes().split(b"\0"):
                        found.append(int(folder.name))
    return found
