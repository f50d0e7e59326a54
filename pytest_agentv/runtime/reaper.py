"""Cleans up processes and temporary folders even if this process is killed with SIGKILL.

The first use starts a small watcher process that holds the other end of a pipe. This process writes every running
process group, temporary folder and environment mark to the pipe (`+GROUP 123`, `-GROUP 123`, `+DIR /tmp/x`,
`+MARK NAME=value`). The pipe closes when this process ends. The watcher then ends those groups, kills the marked
processes and removes those folders.
"""

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pytest_agentv.runtime.process_tree import end_trees, kill_marked

_GRACE_SECONDS: Final = 2.0
"""Nobody waits for the watcher, but a new run may need the port or lock of the old processes."""

_MARK: Final = "AGENTV_CALL_ID"
_PROGRAM_MARK: Final = "AGENTV_PROGRAM_ID"

_PACKAGE_ROOT: Final = Path(__file__).parents[2]
_PROGRAM: Final = (
    "import sys; sys.path.append(sys.argv[1]); from pytest_agentv.runtime.reaper import watch; watch(sys.stdin.buffer)"
)


def start_watcher() -> None:
    """Start the watcher if it is not running. Call it before starting a process, so that the watcher learns of it."""
    _WATCHER.start()


@contextmanager
def watched_group(group: int) -> Iterator[None]:
    """Within the block, have the watcher end a process group if this process dies."""
    _WATCHER.tell(f"+GROUP {group}")
    try:
        yield
    finally:
        _WATCHER.tell(f"-GROUP {group}")


@contextmanager
def marked_processes() -> Iterator[dict[str, str]]:
    """Yield a variable for the environment of a program. At the end, kill all processes that inherited it."""
    value = uuid.uuid4().hex
    with watched_mark(mark := f"{_MARK}={value}"):
        try:
            yield {_MARK: value}
        finally:
            kill_marked(mark)


def program_mark() -> tuple[str, str]:
    """Return the name and the value of a variable that distinguishes a program and what it starts from all others."""
    return _PROGRAM_MARK, uuid.uuid4().hex


@contextmanager
def watched_mark(mark: str) -> Iterator[None]:
    """Within the block, have the watcher kill the processes with a variable `NAME=value` if this process dies."""
    _WATCHER.tell(f"+MARK {mark}")
    try:
        yield
    finally:
        _WATCHER.tell(f"-MARK {mark}")


@contextmanager
def temporary_folder(prefix: str, *, keep: bool = False) -> Iterator[Path]:
    """Create a folder that only this user can read. It is removed afterwards, even if this process is killed."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if keep:
        yield folder
        return
    _WATCHER.tell(f"+DIR {folder}")
    try:
        yield folder
    finally:
        _remove(folder)
        _WATCHER.tell(f"-DIR {folder}")


def remove_at_end(folder: Path) -> None:
    """Have the watcher remove a folder when this process ends, even by SIGKILL."""
    _WATCHER.tell(f"+DIR {folder}")


class _Watcher:
    """The watcher process of this process. Runs continue without it if it cannot start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
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

    def tell(self, line: str) -> None:
        self.start()
        with self._lock, suppress(OSError):
            if self._process is not None and self._process.stdin is not None:
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
    end_trees((int(entry[6:]) for entry in entries if entry.startswith(b"GROUP ")), _GRACE_SECONDS)
    for entry in entries:
        if entry.startswith(b"MARK "):
            kill_marked(os.fsdecode(entry[5:]))
    for entry in entries:
        if entry.startswith(b"DIR "):
            _remove(Path(os.fsdecode(entry[4:])))


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
