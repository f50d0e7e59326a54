"""Workers that live as if on other machines: each with its own folder, environment and, where that is allowed, a view
of the disk in which the folders of the run are empty.
"""

import os
import pickle
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import warm

WORKER = """
import os, pickle, sys
replies, requests = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
while True:
    try:
        function, args = pickle.load(requests)
    except EOFError:
        os._exit(0)
    try:
        reply = True, function(*args)
    except Exception as error:
        reply = False, error
    pickle.dump(reply, replies)
    replies.flush()
"""

FORKED = """
import ctypes, os, subprocess, sys

hidden, folder = sys.argv[1:], os.getcwd()
if hidden:
    if ctypes.CDLL(None).unshare(0x20000):  # CLONE_NEWNS: a view of the disk of its own
        os._exit(98)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    for each in hidden:
        subprocess.run(["mount", "-t", "tmpfs", "hidden", each], check=True)
    os.chdir(folder)
"""
"""What `HIDING` does, in a process that was forked."""

HIDING = 'mount --make-rprivate / && for each in {}; do mount -t tmpfs hidden "$each" || exit 99; done; exec "$@"'


@cache
def reason_not_to_hide() -> str | None:
    """Return why folders cannot be hidden from a process here; None: they can."""
    try:
        done = subprocess.run(  # noqa: PLW1510 - it may fail
            ["unshare", "-m", "sh", "-c", "mount --make-rprivate / && mount -t tmpfs hidden /mnt"],
            capture_output=True,
            encoding="utf-8",
        )
    except OSError as error:
        return f"unshare: {error.strerror}"
    return None if done.returncode == 0 else f"unshare -m: {done.stderr.strip()}"


class Elsewhere(Executor):
    """Runs one call at a time in each of its workers."""

    def __init__(
        self,
        folders: Sequence[Path],
        hidden: Sequence[Path] = (),
        log: Path | None = None,
        *,
        is_fresh: bool = True,
        **variables: str,
    ) -> None:
        """`hidden` folders are empty for the workers; what is sent to them is added to the file `log`.

        Workers that need not be fresh are forked: each of them is there in no time.
        """
        self._max_workers = len(folders)
        self._log = log
        self._calls: SimpleQueue[tuple[Future[Any], bytes] | None] = SimpleQueue()
        self._processes = [_start(folder, hidden, variables, is_fresh=is_fresh) for folder in folders]
        self._threads = [threading.Thread(target=self._serve, args=(each,), daemon=True) for each in self._processes]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> "Future[Any]":
        assert not keywords
        future: Future[Any] = Future()
        data = pickle.dumps((function, args))
        if self._log is not None:
            with self._log.open("ab") as file:
                file.write(data)
        self._calls.put((future, data))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def _serve(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        with process:
            while (call := self._calls.get()) is not None:
                future, data = call
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    process.stdin.write(data)
                    process.stdin.flush()
                    is_done, value = pickle.load(process.stdout)
                except (EOFError, OSError) as error:
                    future.set_exception(error)
                    continue
                if is_done:
                    future.set_result(value)
                else:
                    future.set_exception(value)


def with_hidden(command: list[str], hidden: Sequence[Path]) -> list[str]:
    """Return a command whose process sees empty folders."""
    if not hidden:
        return command
    script = HIDING.format(" ".join(f"'{path}'" for path in hidden))
    return ["unshare", "-m", "sh", "-c", script, "sh", *command]


def write_interpreter(folder: Path, hidden: Sequence[Path] = ()) -> Path:
    """Write a program that starts Python in a new folder each time, with the `.env` of `folder`; return its path."""
    program = folder / "python"
    command = shlex.join(with_hidden([sys.executable], hidden))
    program.write_text(
        f"""#!/bin/sh
own=$(mktemp -d '{folder}/worker-XXXXXX') && mkdir "$own/tmp" && cp '{folder}/.env' "$own" && cd "$own" || exit 98
exec env -i PATH="$PATH" HOME="$own" TMPDIR="$own/tmp" {command} "$@"
"""
    )
    program.chmod(0o755)
    return program


def _start(
    folder: Path, hidden: Sequence[Path], variables: dict[str, str], *, is_fresh: bool
) -> "subprocess.Popen[bytes]":
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    names = ("PATH", "LANG", "LC_ALL")
    environment = {name: os.environ[name] for name in names if name in os.environ}
    environment |= {"HOME": str(folder), "TMPDIR": str(folder / "tmp"), **variables}
    if not is_fresh:
        words = [sys.executable, "-c", FORKED + WORKER, *map(str, hidden)]
        return warm.Popen(words, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    command = with_hidden([sys.executable, "-c", WORKER], hidden)
    return subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
