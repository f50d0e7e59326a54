"""Starts runs of a project that a test kills, and waits until nothing of them is left."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import warm

WORKERS = 3
"""Cases in flight."""
LONGEST_RUN = 300.0
"""Seconds after which a run, or a process of one that was killed, hangs; it is a matter of a few on an idle machine."""


def start(folder: Path, *args: str) -> "subprocess.Popen[bytes]":
    without = (
        "-p",
        "no:cacheprovider",
        "-p",
        "no:hypothesispytest",
        "-p",
        "no:anyio",
        "-p",
        "no:rerunfailures",
    )  # they only take time here
    command = [sys.executable, "-m", "pytest", "-q", *without, "--agentv-out=out.jsonl"]
    return warm.Popen(
        [*command, f"--agentv-workers={WORKERS}", *args],
        cwd=folder,
        env={**os.environ, "CALLS": str(folder / "calls.txt")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def children(pid: int) -> Iterator[int]:
    """Yield all descendants of a process. Any of them may end meanwhile."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return
    for task in tasks:
        try:
            pids = task.joinpath("children").read_text().split()
        except OSError:
            continue
        for child in map(int, pids):
            yield child
            yield from children(child)


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def wait_for_the_end(pids: list[int]) -> list[str]:
    """Wait until processes are gone; return the commands of those that are not."""
    deadline = time.monotonic() + LONGEST_RUN
    commands = {pid: command_of(pid) for pid in pids}
    while time.monotonic() < deadline:
        left = [command for pid, command in commands.items() if command and command_of(pid) == command]
        if not left:
            return []
        time.sleep(0.02)
    return left
